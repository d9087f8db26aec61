"""Compile fast.pyx: ``pip install .``, or ``python setup.py build_ext --inplace``."""

from Cython.Build import cythonize
from setuptools import Extension, setup

from syncless import native

setup(
    ext_modules=cythonize(
        [Extension("fast", ["fast.pyx"], include_dirs=[native.get_include()])], language_level=3
    )
)
