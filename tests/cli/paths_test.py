# SPDX-License-Identifier: Apache-2.0
"""Every path that the command takes, in every state that a path can be in: the user's fault is told as such, with exit
status 2 or 8 and the path's name, and never as a fault in Tenon; nothing hangs; what is read is never written.
usage: paths_test.py TENON SAMPLES"""
import concurrent.futures
import hashlib
import os
import re
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile

SECONDS = 60
NOBODY = 65534
# Arguments by verb: what each names. A value is put in the place of {}.
MODEL_OPTIONS = {'--timing-cache': 'cache', '--external-root': 'in_folder', '--plugin': 'in', 'MODEL': 'in'}
DATA_OPTIONS = {'--data': 'in', '--calib-cache': 'cache'}
IMAGE_OPTIONS = {'--source': 'in', '--labels': 'in', '--output': 'out_folder', '--json': 'out'}
VERBS = {
    'build': {**MODEL_OPTIONS, **DATA_OPTIONS, '--output': 'out', '--json': 'out', '--eval': 'in', '--pareto': 'out'},
    'run': {**MODEL_OPTIONS, '--input': 'in', '--output-dir': 'out_folder', '--json': 'out'},
    'detect': {**MODEL_OPTIONS, **IMAGE_OPTIONS},
    'classify': {**MODEL_OPTIONS, **IMAGE_OPTIONS},
    'segment': {**MODEL_OPTIONS, **IMAGE_OPTIONS},
    'bench': {**MODEL_OPTIONS, '--input': 'in', **DATA_OPTIONS, '--json': 'out'},
    'inspect': {**MODEL_OPTIONS, '--json': 'out'},
    'why': {**MODEL_OPTIONS, '--json': 'out'},
    'verify': {'DIR': 'in_folder', '--json': 'out'},
    'devices': {'--json': 'out'},
    'quantize': {'MODEL': 'in', '--external-root': 'in_folder', '--plugin': 'in', **DATA_OPTIONS, '--output': 'out',
                 '--tensorrt-table': 'out', '--json': 'out'},
    'kernels': {'FILE': 'in', '--json': 'out'},
}
STATES = ['missing', 'missing_folder', 'directory', 'unreadable', 'not_writable', 'full_disk', 'dev_null', 'fifo',
          'link_loop', 'too_long', 'not_utf8', 'socket', 'empty_file', 'empty']


def field(number, data):
    if isinstance(data, int):
        return bytes([number << 3]) + varint(data)
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def varint(value):
    out = b''
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def value_info(name, sizes, kind=1):
    dims = b''.join(field(1, field(2 if isinstance(size, bytes) else 1, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, dims)))


def model(sizes, op=b'Relu', result=None, kind=1):
    """y = op(x), as ONNX; `kind` is the element type."""
    node = field(1, b'x') + field(2, b'y') + field(4, op)
    graph = (field(1, node) + field(2, b'g') + field(11, value_info(b'x', sizes, kind))
             + field(12, value_info(b'y', result or sizes, kind)))
    return field(1, 8) + field(7, graph) + field(8, field(1, b'') + field(2, 17))


def npy(sizes):
    count = 1
    for size in sizes:
        count *= size
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ''.join('%d,' % size for size in sizes)
    header += ' ' * (-(10 + len(header) + 1) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() + bytes(4 * count)


class Place:
    """A folder with everything that the verbs need, and one path in some state."""

    def __init__(self, root, samples):
        self.folder = tempfile.mkdtemp(dir=root)
        os.chmod(self.folder, 0o777)
        sizes = (1, 3, 8, 8)
        self.write('m.onnx', model(sizes))
        self.write('x.npy', npy(sizes))
        shutil.copy(os.path.join(samples, 'images', '00001.jpg'), os.path.join(self.folder, 'p.jpg'))
        self.write('labels.txt', b'a\nb\n')
        self.write('k.pack', b'none')
        self.write('c/model.onnx', model(sizes))
        self.write('c/test_data_set_0/input_0.pb', b'')

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(data)

    def words(self, verb, option, value):
        """The command with `value` for `option`."""
        output = 'out' if verb in ('detect', 'classify', 'segment') else 'o.bin'
        where = {'MODEL': 'm.onnx', 'DIR': 'c', 'FILE': 'k.pack', '--output': output, '--source': 'p.jpg',
                 '--input': 'x.npy', '--data': 'x.npy'}
        needed = {'build': ['MODEL', '--output'], 'run': ['MODEL', '--input'], 'detect': ['MODEL', '--source'],
                  'classify': ['MODEL', '--source'], 'segment': ['MODEL', '--source'],
                  'quantize': ['MODEL', '--output', '--data'], 'devices': [], 'verify': ['DIR'],
                  'kernels': ['FILE']}.get(verb, ['MODEL'])
        words = [verb]
        if verb == 'kernels':
            words += ['import', '--trust']
        if verb in ('build', 'bench') and option in DATA_OPTIONS:
            words += ['--precision', 'int8'] + ([] if option == '--data' else ['--data', 'x.npy'])
        if verb == 'build' and option in ('--eval', '--pareto'):
            words += ['--precision', 'best', '--data', 'x.npy', '--max-drop', '100']
        if verb == 'bench':
            words += ['--iterations', '1', '--warmup', '0']
        if verb not in ('verify', 'devices', 'kernels', 'quantize'):
            words += ['-q', '--budget', '0'] + ([] if option == '--timing-cache' else ['--timing-cache', '-'])
        for name in dict.fromkeys(needed + [option]):
            given = value if name == option else where[name]
            words += [given] if name.isupper() else [name, given]
        return words

    def make(self, state, role, name):
        """The path in this state."""
        path = os.path.join(self.folder, name)
        content = b'{}' if role in ('out', 'cache') else model((1, 3, 8, 8))
        if state == 'missing_folder':
            return os.path.join(self.folder, 'nowhere', name)
        if state == 'directory':
            os.mkdir(path)
        elif state == 'unreadable':
            self.write(name, content)
            os.chmod(path, 0)
        elif state == 'not_writable':
            os.mkdir(os.path.join(self.folder, 'closed'))
            path = os.path.join(self.folder, 'closed', name)
            if role in ('in', 'in_folder'):
                self.write('closed/' + name, content)
            os.chmod(os.path.join(self.folder, 'closed'), 0o555)
        elif state == 'dev_null':
            return '/dev/null'
        elif state == 'fifo':
            os.mkfifo(path)
        elif state == 'socket':
            os.mknod(path, stat.S_IFSOCK | 0o666)
        elif state == 'link_loop':
            os.symlink(name, path)
        elif state == 'too_long':
            return os.path.join(self.folder, 'n' * 300)
        elif state == 'not_utf8':
            return os.fsdecode(os.fsencode(path) + b'\xff\xfe')
        elif state == 'empty_file':
            self.write(name, b'')
        elif state == 'empty':
            return ''
        return path


def limited():
    """A full disk: no file may grow. Signals are told as errors."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def run(tenon, place, words, full=False, user=None):
    environment = {'PATH': '/usr/bin:/bin', 'HOME': place.folder, 'TENON_CACHE_DIR': os.path.join(place.folder, 'kept')}
    try:
        result = subprocess.run([tenon] + words, cwd=place.folder, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS,
                                preexec_fn=limited if full else None, user=user)
    except subprocess.TimeoutExpired:
        return None, 'it hangs'
    return result.returncode, result.stderr.decode('utf-8', 'surrogateescape')


def fault_of(tenon, root, samples, verb, option, role, state, user):
    """What is wrong with this cell; None: nothing."""
    place = Place(root, samples)
    name = 'named.%s' % {'--source': 'jpg', '--input': 'npy', '--data': 'npy'}.get(option, 'bin')
    path = place.make(state, role, name)
    read = {file: digest(os.path.join(place.folder, file)) for file in ('m.onnx', 'x.npy', 'p.jpg', 'labels.txt')}
    words = place.words(verb, option, path)
    status, text = run(tenon, place, words, state == 'full_disk', user)
    for file, before in read.items():
        if digest(os.path.join(place.folder, file)) != before:
            return 'it changed ' + file
    if status is None or 'fault in Tenon' in text or status < 0:
        return 'status %s: %s' % (status, text)
    # An empty file may also be an invalid model; devices and fresh names may be fine.
    allowed = {2, 8} | ({3, 5} if state in ('empty_file', 'dev_null', 'not_utf8') and role == 'in' else set())
    is_output = role in ('out', 'cache', 'out_folder')
    if status == 0:
        fine = ((is_output and state in ('missing', 'dev_null', 'not_utf8', 'empty_file', 'unreadable'))
                or (role == 'out_folder' and state in ('directory', 'missing_folder'))
                or (role == 'in_folder' and state in ('directory', 'not_writable', 'unreadable'))
                or (role == 'in' and state in ('not_writable', 'empty_file', 'dev_null'))
                or (role == 'cache' and state in ('full_disk', 'not_writable'))  # costs the next build, nothing else
                or (state == 'full_disk' and not is_output))
        return None if fine else 'it passes'
    if role in ('in', 'in_folder') and state in ('not_writable', 'full_disk'):
        return None  # as good as any other file
    if verb == 'kernels' and option == '--json' and 'k.pack' in text:
        return None  # the report was fine, the pack is none
    # What else the verb finds wrong with this small model, once the path was taken.
    if status in (4, 6) or (status in (2, 3) and verb in ('detect', 'classify', 'segment', 'why', 'kernels', 'verify')):
        shown = os.path.basename(path) or option
        return None if status in (4, 6) or shown in text or option in text or state == 'dev_null' else text
    if status not in allowed:
        return 'status %d: %s' % (status, text)
    shown = option if state == 'empty' else os.path.basename(path)
    if state == 'missing_folder':
        shown = 'nowhere'
    if state == 'full_disk' or (is_output and state == 'not_writable'):
        shown = ''
    return None if shown in text or option in text else 'it does not name the path: ' + text


def digest(path):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def table_is_whole(tenon):
    """Options of paths that --help shows and the table lacks."""
    missing = []
    for verb, options in VERBS.items():
        text = subprocess.run([tenon, verb, '--help'], stdout=subprocess.PIPE, check=True).stdout.decode()
        for match in re.finditer(r'^ +(?:-\w, ?)?(--[a-z-]+)(?:,--[a-z-]+)* (?:NAME=)?(?:FILE|PATH|DIR)\b', text, re.M):
            if match.group(1) not in options:
                missing.append('%s %s' % (verb, match.group(1)))
    return missing


def main():
    tenon, samples = (os.path.abspath(word) for word in sys.argv[1:3])
    failed = ['the table lacks ' + one for one in table_is_whole(tenon)]
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        # Root reads everything: another user runs the rows about rights, where he may run the command.
        user = NOBODY if os.geteuid() == 0 else None
        if user and subprocess.run([tenon, '--version'], stdout=subprocess.DEVNULL, user=user).returncode != 0:
            print('skipped: rows about rights, as another user cannot run ' + tenon)
            user = 0
        cells = [(verb, option, role, state) for verb, options in VERBS.items() for option, role in options.items()
                 for state in STATES if user != 0 or state not in ('unreadable', 'not_writable')]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            faults = pool.map(lambda cell: fault_of(tenon, root, samples, *cell,
                                                    user if cell[3] in ('unreadable', 'not_writable') else None), cells)
            for cell, fault in zip(cells, faults):
                if fault:
                    failed.append('%s %s, %s: %s' % (cell[0], cell[1], cell[3], fault))
        if not stat.S_ISCHR(os.stat('/dev/null').st_mode):
            failed.append('/dev/null is no device any more')
        print('%d cells, %d failed' % (len(cells), len(failed)))
    print('\n'.join(failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
