"""What the `gguf` package and llama.cpp make of the same numbers: tests/kernels/fixtures/block_formats.json and
tests/formats/fixtures/gguf. Run by `make peer`; the results are committed."""

import ctypes
import json
import pathlib

import gguf
import numpy as np
import xllamacpp
from gguf.quants import dequantize, quantize

ROOT = pathlib.Path(__file__).parents[2]
KERNELS = ROOT / "tests" / "kernels" / "fixtures"
FILES = ROOT / "tests" / "formats" / "fixtures" / "gguf"
SMALL = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
LARGE = ["Q4_K", "Q5_K", "Q6_K"]
WIDTH = 256

library = ctypes.CDLL(str(next(pathlib.Path(xllamacpp.__file__).parent.glob("xllamacpp*.so"))))
library.ggml_quantize_chunk.restype = ctypes.c_size_t
library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]


def type_of(name):
    return gguf.GGMLQuantizationType[name]


def rows():
    """Weights as layers have them, with long tails, around an offset, of many magnitudes; zeros; constants."""
    random = np.random.default_rng(19)
    normal = random.standard_normal((8, WIDTH))
    out = normal * 0.02
    out[1] = random.standard_t(3, WIDTH) * 0.02
    out[2] += 0.03
    out[3] *= np.exp2(random.integers(-20, 10, WIDTH // 16)).repeat(16)
    out[4, ::3] = 0
    out[5] = 0
    out[6, :128], out[6, 128:] = 1, -2
    out[7] = np.round(normal[7] * 4) / 4  # ties
    return np.ascontiguousarray(out, np.float32)


def llama_cpp(name, values):
    block, size = gguf.GGML_QUANT_SIZES[type_of(name)]
    out = np.zeros((len(values), WIDTH // block * size), np.uint8)
    library.ggml_quantize_chunk(int(type_of(name)), values.ctypes.data, out.ctypes.data, 0, len(values), WIDTH, None)
    return out


def blocks():
    values = rows()
    out = {"width": WIDTH, "values": values.tobytes().hex(), "small": {}, "large": {}}
    for name in SMALL:
        stored = quantize(values, type_of(name))
        out["small"][name] = {"blocks": stored.tobytes().hex(),
                              "values": dequantize(stored, type_of(name))[:2].tobytes().hex()}
    for name in LARGE:
        stored = llama_cpp(name, values)
        back = dequantize(stored, type_of(name))
        out["large"][name] = {"blocks": stored.tobytes().hex(), "values": back[:2].tobytes().hex(),
                              "squared_errors": [float(e) for e in
                                                 ((back.astype(np.float64) - values) ** 2).sum(axis=1)]}
    KERNELS.mkdir(exist_ok=True)
    (KERNELS / "block_formats.json").write_text(json.dumps(out, indent=1) + "\n")


def files():
    """A file with metadata of every type and tensors of every type that is read."""
    FILES.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(FILES / "types.gguf", "none")
    writer.add_uint8("a.uint8", 200)
    writer.add_int8("a.int8", -100)
    writer.add_uint16("a.uint16", 60000)
    writer.add_int16("a.int16", -30000)
    writer.add_uint32("a.uint32", 4000000000)
    writer.add_int32("a.int32", -2000000000)
    writer.add_float32("a.float32", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "grün")
    writer.add_uint64("a.uint64", 2**64 - 1)
    writer.add_int64("a.int64", -(2**63))
    writer.add_float64("a.float64", 0.1)
    writer.add_array("a.texts", ["one", "", "three"])
    writer.add_array("a.numbers", [1, -2, 3])
    values = rows()
    writer.add_tensor("line", values[0])
    writer.add_tensor("F32", values)
    writer.add_tensor("F16", values.astype(np.float16))
    for name in ["BF16", *SMALL]:
        writer.add_tensor(name, quantize(values, type_of(name)), raw_dtype=type_of(name))
    for name in LARGE:
        writer.add_tensor(name, llama_cpp(name, values), raw_dtype=type_of(name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


blocks()
files()
