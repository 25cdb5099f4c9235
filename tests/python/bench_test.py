# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of frameworks, their plots, and the memory monitor."""

import json
import sys

import pytest

import tenon
from tenon.__main__ import main


def test_benchmark_and_plots(tmp_path, capsys):
    pytest.importorskip('torchvision', reason='no torchvision')
    pytest.importorskip('onnxscript', reason='no onnxscript')
    model, engines = str(tmp_path / 'm.onnx'), tmp_path / 'engines'
    engines.mkdir()
    words = ['--weights', 'none', '--input-shape', '3x64x64']
    assert main(['export', '--model', 'squeezenet1_1', *words, '--dynamic-batch', '-o', model]) == 0
    tenon.build(model, budget=0).save(str(engines / 'free.tenon'))
    assert main(['export', '--model', 'squeezenet1_1', *words, '-o', model]) == 0
    tenon.build(model, budget=0).save(str(engines / 'one.tenon'))
    results = str(tmp_path / 'results' / 'benchmark.json')
    assert main(['bench', '--pytorch-model', 'squeezenet1_1', *words, '--engines', str(engines), '--batch-sizes', '1',
                 '2', '--iterations', '3', '--warmup', '1', '--no-compile', '--monitor', '--output', results]) == 0
    with open(results, encoding='utf-8') as file:
        report = json.load(file)
    rows = {(row['name'], row['batch']): row for row in report['results']}
    for name in ('pytorch', 'free'):
        for batch in (1, 2):
            row = rows[name, batch]
            assert row['latency_ms']['least'] <= row['latency_ms']['p50'] <= row['latency_ms']['p99']
            assert row['fidelity']['relative_error'] < 1e-4 and row['throughput'] > 0 and row['model_bytes'] > 1e6
            # Each holds its weights, whoever else has loaded some.
            assert 0.9 * row['model_bytes'] < row['memory_bytes'] < 1e9
        assert rows[name, 1]['memory_bytes'] <= rows[name, 2]['memory_bytes']
    assert 'takes 1x3x64x64 alone' in rows['one', 2]['error'] and 'error' not in rows['one', 1]
    assert report['memory']['host_peak_bytes'] > 0 and report['environment']['cpu']
    pytest.importorskip('matplotlib', reason='no matplotlib')
    capsys.readouterr()
    assert main(['plot', '--results', results, '--output', str(tmp_path / 'plots')]) == 0
    for path in capsys.readouterr().out.split():
        with open(path, 'rb') as file:
            start = file.read(9)
        assert start.startswith({'png': b'\x89PNG', 'svg': b'<?xml', 'tml': b'<!doctype'}[path[-3:]])
    page = (tmp_path / 'plots' / 'index.html').read_text()
    assert page.count('data:image/png;base64,') == 6 and 'takes 1x3x64x64 alone' in page


def test_how_long_it_takes_is_told(monkeypatch):
    from tenon import _bench

    seconds, told = iter(range(1000)), []
    monkeypatch.setattr(_bench.time, 'perf_counter', lambda: next(seconds))
    times = _bench._timed({'a': lambda: None, 'b': lambda: None}, 20, told.append)
    assert told == [9 * 9] and [len(one) for one in times.values()] == [20, 20]


def test_plots_say_whose_an_engine_is():
    pytest.importorskip('matplotlib', reason='no matplotlib')
    from tenon._plot import _page, figures

    rows = [{'name': name, 'kind': kind, 'batch': batch, 'model_bytes': 1e7, 'memory_bytes': 2e7, 'throughput': 1 / ms,
             'latency_ms': {key: batch * ms for key in ('mean', 'p50', 'p90', 'p99')},
             'fidelity': {'relative_error': 1e-3}}
            for name, kind, ms in (('pytorch compiled', 'pytorch', 9.0), ('int8', 'tenon', 2.0),
                                   ('onnxruntime', 'onnxruntime', 4.0), ('my_tenon', 'tenon', 3.0))
            for batch in (1, 16)]
    report = {'format': 'tenon benchmark 1', 'model': 'm', 'iterations': 1, 'warmup': 1, 'environment': {},
              'results': rows}
    made = figures(report)
    latency = made['latency']
    assert [axes.get_title(loc='left') for axes in latency.axes] == ['batch 1', 'batch 16']
    assert [one.get_text() for one in latency.legends[0].texts] == [
        'PyTorch compiled', 'Tenon int8', 'ONNX Runtime', 'my_tenon']
    # Each panel fits its own batch.
    assert latency.axes[1].get_ylim()[1] == pytest.approx(16 * latency.axes[0].get_ylim()[1])
    assert '<td>Tenon int8</td>' in _page(report, [])


def test_plot_refuses_other_files(tmp_path, capsys):
    for text in ('nothing', '{}', '{"format": "tenon benchmark 1", "results": []}'):
        (tmp_path / 'r.json').write_text(text)
        assert main(['plot', '--results', str(tmp_path / 'r.json'), '-o', str(tmp_path)]) == 2
        assert capsys.readouterr().err.startswith('error: ')


def test_help_of_a_verb_in_python_is_its_own(capsys):
    with pytest.raises(SystemExit) as left:
        main(['help', 'plot'])
    assert left.value.code == 0
    assert '--results' in capsys.readouterr().out


def test_monitor_sees_memory_come_and_go(tmp_path):
    with tenon.monitor(interval=0.005) as samples:
        block = bytearray(64 << 20)
        block[::4096] = bytes(len(block[::4096]))
        samples.sample()
        del block
    facts = samples.as_dict()
    assert facts['host_growth_bytes'] > 60e6 and samples.host[-1] < samples.host_peak - 60e6
    assert len(samples.seconds) == len(samples.host) >= 3 and 'grown by' in repr(samples)
    out = str(tmp_path / 'm.json')
    code = 'import time; a = bytearray(50_000_000); a[::512] = bytes(len(a[::512])); time.sleep(1); exit(3)'
    assert main(['monitor', '--interval', '0.01', '--json', out, '--', sys.executable, '-c', code]) == 3
    with open(out, encoding='utf-8') as file:
        assert json.load(file)['host_peak_bytes'] > 50e6
