# SPDX-License-Identifier: Apache-2.0
"""What tools/functions.py takes for a function, and how long it finds it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
from functions import functions

CPP = '''namespace a {
struct Room {
  explicit Room(int width)
      : width_(width) {
    if (width > 0) {
      clear();
    }
  }
  int area() const { return width_ * width_; }
  int width_ = 0;
};

template <class T, int N = f(3)>
int long_one(const T& first,
             const T& second) {
  const auto inner = [&](int at) {
    return at;
  };
#if N
  while (true) {
  }
#endif
  return inner(3);
}

constexpr int list[] = {
    f(1),
};
}  // namespace a
'''
CUDA = '''// A kernel.
extern "C" __global__ void __launch_bounds__(THREADS, f(2)) kernel(Breadcrumb breadcrumb,
                                                                  const Params p) {
  for (int i = 0; i < p.n; ++i) {
    p.to[i] = 0;
  }
}
'''


class Functions(unittest.TestCase):
    def test_of_cpp(self):
        self.assertEqual(list(functions('a.cpp', CPP)), [('Room', 3, 6), ('long_one', 13, 12)])

    def test_of_kernels(self):
        self.assertEqual(list(functions('a.cu', CUDA)), [('kernel', 2, 6)])

    def test_of_python(self):
        self.assertEqual(list(functions('a.py', 'def f():\n    return 1\n\n\nx = 3\n')), [('f', 1, 2)])

    def test_of_other_files(self):
        self.assertEqual(list(functions('a.txt', CPP)), [])


unittest.main()
