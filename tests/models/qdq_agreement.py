# SPDX-License-Identifier: Apache-2.0
"""What tenon quantize writes, against Tenon's own engine of the same recipe and run by ONNX Runtime. Tenon computes the
same bits of either. ONNX Runtime rounds the same values to the same steps, but for a few that a last bit of its sums in
floating point moves to the next one; what follows them differs by little more, so that all images together differ by
less than quantisation changes.
usage: qdq_agreement.py SAMPLES"""
import os
import subprocess
import sys
import tempfile

import reference

np, cv2, onnx, onnxruntime = reference.imported('numpy', 'cv2', 'onnx', 'onnxruntime')

IMAGES, SIDE = ['%05d.jpg' % at for at in range(1, 24, 2)], 320
SURE, LEAST_SAME_CLASS = 0.3, 0.99  # candidates that both sides give the same class
MOST_OF_LOSS = 0.5  # mean difference of the two, of what quantisation itself changes
FIRST, MOST_MOVED = 6, 1e-4  # tensors of bytes from the image on, and the share of them that differs
UNTIMED = ['-q', '--budget', '0', '--timing-cache', '-']


def tenon(folder, *words):
    subprocess.run([os.environ['TENON'], *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def session(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Its own fusions would run other arithmetic than the file says.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])


def show_bytes(folder):
    """Writes shown.onnx, which also gives the first tensors of bytes; returns their names."""
    model = onnx.load(os.path.join(folder, 'q.onnx'))
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [node.output[0] for node in model.graph.node
             if node.op_type == 'QuantizeLinear' and node.input[0] not in constants][:FIRST]
    for name in names:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, None))
    onnx.save(model, os.path.join(folder, 'shown.onnx'))
    return names


def main(samples):
    sys.path.insert(0, samples)
    import evaluate
    model, same, off, loss, moved, fine = os.path.join(samples, 'detector.onnx'), [], [], [], [], True
    with tempfile.TemporaryDirectory() as folder:
        recipe = ['--data', os.path.join(samples, 'images'), '--preprocess', 'yolo', '--calib-count', '4',
                  '--calibrator', 'mse', '--max-error', '1e9']
        tenon(folder, 'quantize', model, '-o', 'q.onnx', '-q', *recipe)
        tenon(folder, 'build', model, '-o', 'q.tenon', '--precision', 'int8', *UNTIMED, *recipe)
        names = show_bytes(folder)
        for name in ('q', 'shown'):
            tenon(folder, 'build', name + '.onnx', '-o', name + '_onnx.tenon', *UNTIMED)
        shown, exact = session(os.path.join(folder, 'shown.onnx')), session(model)
        for image in IMAGES:
            blob = evaluate.letterbox(cv2.imread(os.path.join(samples, 'images', image)), SIDE)[0][None]
            np.save(os.path.join(folder, 'x.npy'), blob)

            def run(engine):
                tenon(folder, 'run', engine, '-q', '--input', 'images=x.npy', '--output-dir', engine + '.out')
                return lambda name: np.load(os.path.join(folder, engine + '.out', name.replace('/', '_') + '.npy'))

            ours, read, bytes_of = run('q.tenon')('output0'), run('q_onnx.tenon')('output0'), run('shown_onnx.tenon')
            theirs, *steps = shown.run(['output0', *names], {'images': blob})
            real = exact.run(None, {'images': blob})[0]
            apart = [np.abs(bytes_of(name).astype(int) - theirs_of) for name, theirs_of in zip(names, steps)]
            moved.append(sum((one > 0).sum() for one in apart) / sum(one.size for one in apart))
            # The first tensor that differs is made of equal ones.
            fine &= np.array_equal(ours, read) and next((one.max() for one in apart if one.any()), 0) <= 1
            sure = np.maximum(ours, theirs)[0, 4:].max(0) > SURE
            same.append((ours[0, 4:].argmax(0) == theirs[0, 4:].argmax(0))[sure].mean())
            for one, list_ in ((ours, off), (real, loss)):
                list_.append(np.abs(one - theirs)[0][:, sure].mean())
            print(f'{image}: {sure.sum()} candidates, {100 * same[-1]:.1f} % of one class; {off[-1]:.3g} apart where '
                  f'quantisation makes {loss[-1]:.3g}; the first bytes differ in {moved[-1]:.2g}, the two engines by '
                  f'{np.abs(ours - read).max():.3g}')
    fine &= min(same) >= LEAST_SAME_CLASS and sum(off) <= MOST_OF_LOSS * sum(loss) and max(moved) <= MOST_MOVED
    print(f'mean {np.mean(off):.3g} of {np.mean(loss):.3g}, bytes {max(moved):.2g}: {"agree" if fine else "FAILED"}')
    return 0 if fine else 1


sys.exit(main(os.path.abspath(sys.argv[1])))
