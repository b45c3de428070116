// Reads and writes GGUF files that hold a LoRA adapter, as llama.cpp loads them: `general.type` is "adapter", and each
// adapted weight NAME has the matrices NAME.lora_a (rank, in) and NAME.lora_b (out, rank). Owns these names and the
// order of B's rows, which is that of the weight's rows in GGUF files. Source: llama.cpp, src/llama-adapter.cpp.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"
#include "families/family.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/gguf/tensor_type.hpp"
#include "formats/source/low_rank.hpp"

namespace troupe::formats {

/// Reads the adapter in the file at `path`, whose base model is of `family` and has attention heads of `head_width`
/// elements; layers get the base's names. The factor of a layer is adapter.lora.alpha / rank, or 1 if the file has no
/// alpha, as in llama.cpp. Refused, with key or tensor: a file that is no adapter, an adapter of another kind or
/// architecture or that acts only after certain tokens, a tensor that is no matrix of a linear layer (norms, which
/// llama.cpp ignores, and embeddings), a layer with only one matrix, matrices that do not fit each other.
core::result<low_rank_adapter> read_gguf_adapter(const std::filesystem::path& path, const families::family& family,
                                                 uint32_t head_width);

struct gguf_adapter_options {  ///< what a file with an adapter is written with
  /// alpha of llama.cpp's factor alpha / rank; must be the product of factor and rank of every layer.
  double alpha = 0;
  gguf_type type = gguf_type::f32;  ///< type of the matrices: f32, f16 or bf16
  gguf_metadata more = {};          ///< entries after the adapter's own keys: name, mark ...
};

/// Writes `adapter`, whose base model is of `family` and has attention heads of `head_width` elements, and returns the
/// size of the file in bytes. The file appears as a whole or not at all. Refused, with layer: one that has no name in
/// GGUF files, an order of rows that does not fit the matrix, a value that the type cannot hold.
core::result<uint64_t> write_gguf_adapter(const std::filesystem::path& out, const low_rank_adapter& adapter,
                                          const families::family& family, uint32_t head_width,
                                          const gguf_adapter_options& options);

}  // namespace troupe::formats
