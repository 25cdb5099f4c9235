# SPDX-License-Identifier: Apache-2.0
"""PyTorch: exports, compiled modules, the backend of torch.compile, comparisons."""

import os
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip('torch', reason='no torch')
pytest.importorskip('onnxscript', reason='no onnxscript')

import tenon  # noqa: E402
import tenon.torch  # noqa: E402
from tenon.__main__ import main  # noqa: E402


class Net(torch.nn.Module):
    """An image in; a dict of two outputs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 4, 3)

    def forward(self, image, scale=None):
        x = torch.relu(self.norm(self.first(image)))
        y = self.second(x)
        return {'map': y if scale is None else y * scale, 'mean': y.mean((2, 3))}


def make():
    return Net()


@pytest.fixture(scope='module')
def net():
    return Net().eval()


IMAGE = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
QUICK = dict(budget=0, timing_cache='-')


def test_export_of_a_module_is_checked(net, tmp_path):
    report = tenon.export(net, tmp_path / 'net.onnx', example_inputs=(IMAGE,))
    assert report.inputs == {'images': [1, 3, 16, 16]} and len(report.errors) == 2
    assert all(error['relative'] < 1e-5 for error in report.errors.values()) and 'relative error' in str(report)
    free = tenon.export(net, tmp_path / 'free.onnx', input_shapes=[(3, 16, 16)], dynamic_batch=True)
    assert isinstance(free.inputs['images'][0], str)
    assert tenon.run(free.path, {'images': numpy.zeros((3, 3, 16, 16), 'float32')}).popitem()[1].shape[0] == 3
    with pytest.raises(tenon.Error) as caught:
        tenon.export(net, tmp_path / 'bad.onnx', example_inputs=(IMAGE,), max_error=-1)
    assert caught.value.code == tenon.Code.gate_failed


def test_export_of_files(net, tmp_path, capsys):
    """State dicts, TorchScript and torch.export; pickles only with --trust."""
    out = str(tmp_path / 'out.onnx')
    torch.save(net.state_dict(), tmp_path / 'state.pt')
    torch.save(net, tmp_path / 'pickle.pt')
    torch.export.save(torch.export.export(net, (IMAGE,)), tmp_path / 'program.pt2')
    shape = ['--input-shape', '3x16x16', '-o', out]
    assert main(['export', '--model', str(tmp_path / 'state.pt'), *shape]) == 2
    assert '--checkpoint' in capsys.readouterr().err
    assert main(['export', '--model', str(tmp_path / 'pickle.pt'), *shape]) == 4
    assert '--trust' in capsys.readouterr().err and not os.path.exists(out)
    assert main(['export', '--model', str(tmp_path / 'pickle.pt'), '--trust', *shape]) == 0
    assert main(['export', '--model', str(tmp_path / 'program.pt2'), *shape]) == 0
    assert main(['export', '--model', str(tmp_path / 'nothing.pt'), *shape]) == 8


def test_export_of_factories_with_weights(net, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(os.path.dirname(__file__))
    out, shape = str(tmp_path / 'out.onnx'), ['--input-shape', '3x16x16']
    other = Net()
    with torch.no_grad():
        other.second.bias.fill_(9)
    torch.save({'state_dict': other.state_dict()}, tmp_path / 'state.pth')
    words = ['export', '--model', 'torch_test:make', *shape, '-o', out]
    assert main([*words, '--checkpoint', str(tmp_path / 'state.pth')]) == 0
    found = tenon.run(out, {'images': IMAGE.numpy()})
    assert numpy.allclose(list(found.values())[1], other.eval()(IMAGE)['mean'].detach().numpy(), atol=1e-4)
    torch.save({'first.weight': torch.zeros(1)}, tmp_path / 'odd.pth')
    assert main([*words, '--checkpoint', str(tmp_path / 'odd.pth')]) == 2
    assert 'missing' in capsys.readouterr().err
    assert main(['export', '--model', 'torch_test:nothing', '-o', out]) == 2
    safetensors = pytest.importorskip('safetensors.torch', reason='no safetensors')
    safetensors.save_file(other.state_dict(), str(tmp_path / 'w.safetensors'))
    assert main([*words, '--checkpoint', str(tmp_path / 'w.safetensors')]) == 0


def test_export_by_name(tmp_path, capsys):
    pytest.importorskip('torchvision', reason='no torchvision')
    assert main(['export', '--model', 'squeezenet1_1', '--weights', 'none', '--dynamic-batch', '--input-shape',
                 '3x64x64', '-o', str(tmp_path / 's.onnx')]) == 0
    out = capsys.readouterr().out
    assert 'against PyTorch' in out and 'note     random weights, as --weights none asks' in out
    assert main(['export', '--model', 'resnett50', '-o', str(tmp_path / 's.onnx')]) == 2
    assert 'did you mean' in capsys.readouterr().err


def test_weights_that_cannot_be_downloaded_are_told(monkeypatch):
    models = pytest.importorskip('torchvision.models', reason='no torchvision')
    from tenon._sources import find

    real = models.get_model

    def offline(name, weights=None):
        if weights is not None:
            raise OSError('no network')
        return real(name, weights=None)

    monkeypatch.setattr(models, 'get_model', offline)
    assert find('squeezenet1_1').notes == ['random weights: trained ones cannot be downloaded (no network)']
    with pytest.raises(tenon.Error, match='cannot be downloaded') as caught:
        find('squeezenet1_1', weights='default')
    assert caught.value.why == 'no network'


def test_the_compiled_command_hands_over(tmp_path):
    from tenon.__main__ import binary

    if binary() is None:
        pytest.skip('no compiled command beside the package')
    environment = {**os.environ, 'PATH': os.path.dirname(sys.executable) + ':' + os.environ['PATH']}
    done = subprocess.run([binary(), 'export', '--help'], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and '--dynamic-batch' in done.stdout


def test_compiled_modules_have_the_modules_signature(net):
    fast = tenon.torch.compile(net, (IMAGE,), **QUICK)
    expected, found = net(IMAGE), fast(IMAGE)
    assert isinstance(found, dict) and set(found) == {'map', 'mean'}
    assert all(torch.allclose(found[name], expected[name], atol=1e-4) for name in found)
    two = tenon.torch.compile(net, (IMAGE, torch.tensor(2.0)), **QUICK)
    assert torch.allclose(two(IMAGE, torch.tensor(2.0))['map'], 2 * expected['map'], atol=1e-4)
    with pytest.raises(tenon.Error, match='another structure'):
        fast(IMAGE, IMAGE)
    free = tenon.torch.compile(net, (IMAGE,), dynamic_batch=True, **QUICK)
    assert free(IMAGE.repeat(5, 1, 1, 1))['mean'].shape == (5, 4)


def test_tensors_go_in_and_out_without_copies(net):
    engine = tenon.torch.compile(net, (IMAGE,), **QUICK).engine
    with engine.session() as session:
        source, target = IMAGE.clone(), torch.zeros(1, 4)
        session.bind_input(engine.inputs[0].name, source)
        session.bind_output(engine.outputs[1].name, target)
        session.run_bound()
        first = target.clone()
        source.mul_(0)
        session.run_bound()
        assert not torch.allclose(first, target) and torch.allclose(first, net(IMAGE)['mean'], atol=1e-4)


def test_backend_of_torch_compile(net):
    tenon.torch.reset()
    torch._dynamo.reset()
    fast = torch.compile(net, backend='tenon')
    with torch.no_grad():
        found, expected = fast(IMAGE), net(IMAGE)
    assert all(torch.allclose(found[name], expected[name], atol=1e-4) for name in found)
    decisions = tenon.torch.explain()
    assert decisions and all(one.taken for one in decisions), decisions


def test_backend_leaves_the_rest_to_pytorch(net):
    tenon.torch.reset()
    torch._dynamo.reset()
    found = torch.compile(net, backend='tenon')(IMAGE)
    found['mean'].sum().backward()
    assert 'gradients' in tenon.torch.explain()[0].why

    def odd(x):
        return torch.linalg.svdvals(x) + 1

    torch._dynamo.reset()
    tenon.torch.reset()
    with torch.no_grad():
        x = torch.randn(4, 4)
        assert torch.allclose(torch.compile(odd, backend='tenon')(x), odd(x))
    assert not tenon.torch.explain()[0].taken and tenon.torch.explain()[0].why


def test_compare_names_the_first_layer_that_differs(net, tmp_path):
    path = str(tmp_path / 'net.onnx')
    tenon.export(net, path, example_inputs=(IMAGE,))
    engine = tenon.build(path, **QUICK)
    assert tenon.torch.compare(net, engine, [IMAGE]).agrees
    exact = tenon.torch.compare(net, engine, [IMAGE], limit=0)
    assert exact.layers and exact.first and not exact.agrees and 'relative' in repr(exact)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IMAGE.repeat(3, 1, 1, 1)), batch_size=1)
    assert tenon.torch.compare(net, engine, loader).samples == 3
    with pytest.raises(tenon.Error, match='no data'):
        tenon.torch.compare(net, engine, [])
