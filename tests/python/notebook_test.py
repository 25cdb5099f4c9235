# SPDX-License-Identifier: Apache-2.0
"""The notebook runs from its first cell to its last, on a CPU."""

import os

import pytest
from conftest import ROOT

nbformat = pytest.importorskip('nbformat', reason='no nbformat')
nbclient = pytest.importorskip('nbclient', reason='no nbclient')
for needed in ('ipykernel', 'torchvision', 'onnxscript', 'matplotlib', 'pandas'):
    pytest.importorskip(needed, reason='no ' + needed)


def test_the_demo_runs():
    path = os.path.join(ROOT, 'notebooks', 'demo.ipynb')
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.get('outputs') for cell in notebook.cells if cell.cell_type == 'code' and 'print' in cell.source)
    client = nbclient.NotebookClient(notebook, timeout=900, kernel_name='python3',
                                     resources={'metadata': {'path': os.path.dirname(path)}})
    client.execute()
