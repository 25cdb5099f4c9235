# SPDX-License-Identifier: Apache-2.0
"""An engine from Python, by ctypes alone, as any language can that calls C.   usage: ctypes_test.py LIBRARY ENGINE"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p

MAX_RANK = 8


class Tensor(ctypes.Structure):
    _fields_ = [('size', c_size_t), ('data', c_void_p), ('dtype', c_int), ('rank', c_int32),
                ('dims', c_int64 * MAX_RANK), ('strides', c_int64 * MAX_RANK), ('has_strides', c_int32),
                ('device', c_char * 24)]


class TensorInfo(ctypes.Structure):
    _fields_ = [('size', c_size_t), ('name', c_char_p), ('dtype', c_int), ('rank', c_int32),
                ('dims', c_int64 * MAX_RANK)]


class Failure(Exception):
    pass


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.tenon_error_text.restype = c_char_p

    def call(self, name, *arguments):
        error = c_void_p()
        if getattr(self.c, 'tenon_' + name)(*arguments, byref(error)):
            text = self.c.tenon_error_text(error).decode()
            self.c.tenon_error_free(error)
            raise Failure(text)


def info_of(tenon, kind, engine):
    info = TensorInfo()
    tenon.c.tenon_tensor_info_init(byref(info))
    assert info.size == ctypes.sizeof(TensorInfo), 'the structure is laid out otherwise'
    tenon.call('engine_' + kind, engine, c_size_t(0), byref(info))
    for axis in range(info.rank):  # a size that may change is -1
        info.dims[axis] = max(info.dims[axis], 1)
    return info


def tensor_of(tenon, info, memory):
    tensor = Tensor()
    tenon.c.tenon_tensor_init(byref(tensor))
    assert tensor.size == ctypes.sizeof(Tensor), 'the structure is laid out otherwise'
    tensor.data, tensor.dtype, tensor.rank, tensor.dims = ctypes.addressof(memory), info.dtype, info.rank, info.dims
    return tensor


def memory_of(info):
    count = 1
    for axis in range(info.rank):
        count *= info.dims[axis]
    return (c_float * count)()


def main():
    tenon = Library(sys.argv[1])
    engine, session = c_void_p(), c_void_p()
    descriptor = os.open(sys.argv[2], os.O_RDONLY)
    tenon.call('load_fd', c_int(descriptor), None, byref(engine))
    os.close(descriptor)
    x, y = info_of(tenon, 'input', engine), info_of(tenon, 'output', engine)
    given, got = memory_of(x), memory_of(y)
    for at in range(len(given)):
        given[at] = at % 255 / 255
    tenon.call('session_new', engine, None, byref(session))
    tenon.call('session_bind_input', session, x.name, byref(tensor_of(tenon, x, given)))
    tenon.call('session_bind_output', session, y.name, byref(tensor_of(tenon, y, got)))
    tenon.call('session_run', session)
    assert any(got), 'the output is empty'
    own = Tensor()
    tenon.c.tenon_tensor_init(byref(own))
    tenon.call('session_output', session, c_size_t(0), byref(own))
    assert own.data == ctypes.addressof(got) and list(own.dims[:own.rank]) == list(y.dims[:y.rank])
    try:
        tenon.call('session_bind_input', session, b'photos', None)
        raise AssertionError('an unknown input was bound')
    except Failure as fault:
        assert 'no input "photos"' in str(fault), fault
    tenon.c.tenon_session_free(session)
    tenon.c.tenon_engine_free(engine)
    print('ok', y.name.decode(), list(y.dims[:y.rank]))


main()
