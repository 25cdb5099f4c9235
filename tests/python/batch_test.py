# SPDX-License-Identifier: Apache-2.0
"""Many images: one row for each, restarts, workers that die."""

import json
import os
import shutil
import signal
import threading
import time

import pytest
from conftest import SAMPLES

parquet = pytest.importorskip('pyarrow.parquet', reason='no pyarrow')

import tenon  # noqa: E402
from tenon import _batch  # noqa: E402
from tenon.__main__ import main  # noqa: E402


@pytest.fixture(scope='module')
def engine(detector, tmp_path_factory):
    path = str(tmp_path_factory.mktemp('engines') / 'detector.tenon')
    tenon.build(detector, budget=0, preprocess='yolo').save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Twenty images in two folders, one of them broken."""
    made = tmp_path / 'images'
    (made / 'below').mkdir(parents=True)
    for at, name in enumerate(sorted(os.listdir(os.path.join(SAMPLES, 'images')))[:20]):
        if name.endswith('.jpg'):
            shutil.copy(os.path.join(SAMPLES, 'images', name), made / ('below' if at % 2 else '.') / name)
    (made / 'broken.jpg').write_bytes(b'\xff\xd8\xff no image')
    return str(made)


def rows_of(path):
    return parquet.read_table(path).to_pylist()


def test_one_row_for_each_image(engine, folder, tmp_path, capsys):
    out = str(tmp_path / 'rows.parquet')
    assert main(['batch', engine, '--source', folder, '-o', out, '--shard', '6', '--json', '-']) == 0
    report, rows = json.loads(capsys.readouterr().out), rows_of(out)
    assert report['rows'] == len(rows) == 21 and len({row['path'] for row in rows}) == 21
    bad = [row for row in rows if row['error']]
    assert len(bad) == 1 and bad[0]['path'].endswith('broken.jpg') and bad[0]['result'] == '[]'
    good = rows[0]
    found = next(iter(tenon.detect(engine, good['path'])))
    assert [one['label'] for one in json.loads(good['result'])] == found.labels and not os.path.exists(out + '.parts')


def test_a_restart_does_what_is_left(engine, folder, tmp_path, monkeypatch):
    out, done = str(tmp_path / 'rows.parquet'), []
    real = _batch.write_shard

    def failing(path, rows):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(path)
        real(path, rows)

    monkeypatch.setattr(_batch, 'write_shard', failing)
    with pytest.raises(KeyboardInterrupt):
        _batch.batch(engine, folder, out, shard=5)
    monkeypatch.setattr(_batch, 'write_shard', real)
    with pytest.raises(tenon.Error, match='another run'):
        _batch.batch(engine, folder, out, shard=7)
    report = _batch.batch(engine, folder, out, shard=5)
    assert report['rows'] == 21 and report['ran'] == 11 and len({row['path'] for row in rows_of(out)}) == 21


def test_parquet_sources(engine, folder, tmp_path):
    import pyarrow

    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.jpg')]
    contents = [open(path, 'rb').read() for path in paths]
    parquet.write_table(pyarrow.table({'path': paths, 'bytes': contents}), str(tmp_path / 'in.parquet'))
    report = _batch.batch(engine, str(tmp_path / 'in.parquet'), str(tmp_path / 'out.parquet'))
    assert report['rows'] == len(paths)


@pytest.fixture(scope='module')
def cluster():
    ray = pytest.importorskip('ray', reason='no ray')
    os.environ['RAY_ENABLE_UV_RUN_RUNTIME_ENV'] = '0'
    path = os.pathsep.join([os.path.dirname(os.path.dirname(tenon.__file__)), os.environ.get('PYTHONPATH', '')])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False,
             runtime_env={'env_vars': {'PYTHONPATH': path}})
    yield ray
    ray.shutdown()


def test_a_worker_that_dies_loses_nothing(cluster, engine, folder, tmp_path):
    killed = []

    def started(pool):
        processes = cluster.get([worker.process.remote() for worker in pool])

        def kill():
            time.sleep(0.2)
            os.kill(processes[0], signal.SIGKILL)
            killed.append(processes[0])

        threading.Thread(target=kill).start()

    out = str(tmp_path / 'rows.parquet')
    report = _batch.batch(engine, folder, out, ray='local', workers=2, shard=1, started=started)
    rows = rows_of(out)
    assert killed and report['rows'] == len(rows) == 21 and len({row['path'] for row in rows}) == 21


def test_predictor_of_ray_data(cluster, engine, folder):
    import tenon.ray

    data = cluster.data.read_binary_files(folder, include_paths=True)
    rows = data.map_batches(tenon.ray.Predictor, fn_constructor_kwargs={'engine': engine}, concurrency=1,
                            batch_size=4).take_all()
    assert len(rows) == 21 and 'bytes' not in rows[0] and sum(bool(row['error']) for row in rows) == 1
