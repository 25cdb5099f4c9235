# SPDX-License-Identifier: Apache-2.0
"""Streams as sources: over HTTP from a server of this test, that sends all, breaks off, or is silent; RTSP by what is
said of it. Skipped where the build has no FFmpeg.   usage: streams_test.py TENON SAMPLES"""
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
SILENCE = 10  # seconds until a stream counts as broken


class Clip(http.server.BaseHTTPRequestHandler):
    """Sends a file, or the part that is asked for; /breaks sends half of what is asked for the first time."""
    data = b''
    broken = 0

    def do_GET(self):
        begin = int((re.match(r'bytes=(\d+)-', self.headers.get('Range', '')) or [0, 0])[1])
        part = self.data[begin:]
        self.send_response(206)
        self.send_header('Accept-Ranges', 'bytes')
        self.send_header('Content-Length', str(len(part)))
        self.send_header('Content-Range', 'bytes %d-%d/%d' % (begin, len(self.data) - 1, len(self.data)))
        self.end_headers()
        if self.path.startswith('/breaks') and len(part) > len(self.data) // 2 and not Clip.broken:
            Clip.broken = len(part)
            part = part[:len(part) // 2]
        try:
            self.wfile.write(part)
        except ConnectionError:
            pass
        self.close_connection = True

    def log_message(self, *words):
        pass


def run(tenon, samples, source, *words):
    command = [tenon, 'detect', samples + '/detector.onnx', '-q', '--budget', '0', '--timing-cache', '-',
               '--vid-stride', '60', '--source', source, *words]
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode(), time.monotonic() - begin


def results(text):
    return [(one['frame'], one['detections']) for one in json.loads(text)['detections']]


def check_http(tenon, samples, folder, port):
    wanted = results(run(tenon, samples, samples + '/line.mp4', '--json', '-')[1])
    assert [frame for frame, _ in wanted] == [0, 60, 120]
    status, text, said, _ = run(tenon, samples, 'http://me:secret@127.0.0.1:%d/clip.mp4?key=1' % port, '--json', '-')
    assert status == 0 and results(text) == wanted, said
    report = json.loads(text)
    assert 'secret' not in text and report['complete']
    assert report['detections'][0]['image'] == 'http://127.0.0.1:%d/clip.mp4?key=1' % port
    address = 'http://127.0.0.1:%d/breaks.mp4' % port
    status, text, said, _ = run(tenon, samples, address, '--json', '-', '-o', folder + '/out')
    assert status == 0 and Clip.broken and results(text) == wanted, (status, said)
    assert os.listdir(folder + '/out') == ['breaks.mp4']


class Camera(http.server.BaseHTTPRequestHandler):
    """JPEG images without an end, faster than they can be worked on."""
    image = b''

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Type', 'multipart/x-mixed-replace; boundary=part')
        self.end_headers()
        part = b'--part\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%s\r\n' % (len(self.image), self.image)
        try:
            while True:
                self.wfile.write(part)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *words):
        pass


def check_live(tenon, samples, folder):
    with open(samples + '/images/00001.jpg', 'rb') as file:
        Camera.image = file.read()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Camera)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    report = folder + '/live.json'
    command = [tenon, 'detect', samples + '/detector.onnx', '-q', '--budget', '0', '--timing-cache', '-', '--source',
               'http://127.0.0.1:%d/' % server.server_address[1], '--json', report, '-o', folder + '/live']
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            time.sleep(6)
            assert running.poll() is None, running.stderr.read()
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 130, running.stderr.read()
        if os.path.exists(report):
            break  # else the machine was too busy to end within the time that a signal leaves
    with open(report, encoding='utf-8') as file:
        found = json.load(file)
    assert not found['complete'] and len(found['detections']) > 1 and found['detections'][-1]['detections']
    assert 'stream.mp4' in os.listdir(folder + '/live')


def check_camera(tenon, samples):
    if os.path.exists('/dev/video97'):
        return
    status, _, said, _ = run(tenon, samples, '97')
    assert status in (4, 8) and '/dev/video97' in said, said


def check_silence(tenon, samples):
    """A server that takes the connection and says nothing."""
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = 'http://127.0.0.1:%d/live' % silent.getsockname()[1]
        status, _, said, seconds = run(tenon, samples, address)
        assert status == 8 and 'nothing came for %d s' % SILENCE in said and address in said, said
        assert seconds > SILENCE - 1
        command = [tenon, 'detect', samples + '/detector.onnx', '--budget', '0', '--timing-cache', '-',
                   '--source', address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
            time.sleep(3)
            running.send_signal(signal.SIGINT)
            begin = time.monotonic()
            status = running.wait(60)
            assert status in (130, -signal.SIGINT) and time.monotonic() - begin < 5, (status, running.stderr.read())


def check_refusals(tenon, samples):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
    for scheme in ('rtsp', 'http'):
        status, _, said, _ = run(tenon, samples, '%s://me:secret@127.0.0.1:%d/live' % (scheme, port))
        assert status == 8 and 'cannot open the stream' in said and 'Connection refused' in said, said
        assert '%s://127.0.0.1:%d/live' % (scheme, port) in said and 'secret' not in said


def main():
    tenon, samples = (os.path.abspath(word) for word in sys.argv[1:])
    devices = subprocess.run([tenon, 'devices', '--json', '-'], stdout=subprocess.PIPE, check=True)
    if not json.loads(devices.stdout)['video']:
        print('skipped: no FFmpeg')
        sys.exit(SKIPPED)
    with open(samples + '/line.mp4', 'rb') as file:
        Clip.data = file.read()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Clip)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        check_http(tenon, samples, folder, server.server_address[1])
        check_live(tenon, samples, folder)
    check_camera(tenon, samples)
    check_silence(tenon, samples)
    check_refusals(tenon, samples)


main()
