"""What tenon quantize writes, run by ONNX Runtime, against Tenon's own engine of the same recipe. Both round the same
values to the same steps; a last bit of ONNX Runtime's sums in floating point moves a few to the next step, and what
follows them differs by little. So some pictures agree to the last digits, and all by less than quantisation changes.
usage: qdq_agreement.py SAMPLES"""
import os
import subprocess
import sys
import tempfile

import reference

np, cv2, onnxruntime = reference.imported('numpy', 'cv2', 'onnxruntime')

PICTURES, SIDE = ['%05d.jpg' % at for at in range(1, 24, 2)], 320
SURE, LEAST_SAME_CLASS = 0.3, 0.99  # candidates that both sides give the same class
MOST_OF_LOSS = 0.5  # mean difference of the two, of what quantisation itself changes
LAST_DIGITS = 1e-5  # the least difference of a picture


def tenon(folder, *words):
    subprocess.run([os.environ['TENON'], *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Its own fusions would run other arithmetic than the file says.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=['CPUExecutionProvider'])


def main(samples):
    sys.path.insert(0, samples)
    import evaluate
    model, same, off, loss = os.path.join(samples, 'detector.onnx'), [], [], []
    with tempfile.TemporaryDirectory() as folder:
        recipe = ['-q', '--data', os.path.join(samples, 'pictures'), '--preprocess', 'yolo', '--calib-count', '4',
                  '--calibrator', 'mse', '--max-error', '1e9', '--calib-cache', 'recipe.json']
        tenon(folder, 'quantize', model, '-o', 'q.onnx', *recipe)
        tenon(folder, 'build', model, '-o', 'q.tenon', '--precision', 'int8', '--budget', '0', '--timing-cache', '-',
              *recipe)
        written, exact = session(os.path.join(folder, 'q.onnx')), session(model)
        for name in PICTURES:
            blob = evaluate.letterbox(cv2.imread(os.path.join(samples, 'pictures', name)), SIDE)[0][None]
            np.save(os.path.join(folder, 'x.npy'), blob)
            tenon(folder, 'run', 'q.tenon', '-q', '--input', 'images=x.npy', '--output-dir', '.')
            ours = np.load(os.path.join(folder, 'output0.npy'))
            theirs, real = (one.run(None, {'images': blob})[0] for one in (written, exact))
            sure = np.maximum(ours, theirs)[0, 4:].max(0) > SURE
            same.append((ours[0, 4:].argmax(0) == theirs[0, 4:].argmax(0))[sure].mean())
            for one, list_ in ((ours, off), (real, loss)):
                list_.append(np.abs(one - theirs)[0][:, sure].mean())
            print(f'{name}: {sure.sum()} candidates, {100 * same[-1]:.1f} % of one class; {off[-1]:.3g} apart where '
                  f'quantisation makes {loss[-1]:.3g}')
    fine = min(same) >= LEAST_SAME_CLASS and min(off) <= LAST_DIGITS and sum(off) <= MOST_OF_LOSS * sum(loss)
    print(f'mean {np.mean(off):.3g} of {np.mean(loss):.3g}, least {min(off):.3g}: {"agree" if fine else "FAILED"}')
    return 0 if fine else 1


sys.exit(main(os.path.abspath(sys.argv[1])))
