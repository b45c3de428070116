// Writes the weights of any checkpoint as one GGUF file that llama.cpp loads. Owns names, order and types of the
// tensors, and the order of the work; leaves the model's sizes and the vocabulary to the caller. Memory is bounded,
// whatever the size of the model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/convert/compressed_layer.hpp"
#include "checkpoint/convert/prepared_weights.hpp"
#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/gguf/mixture.hpp"
#include "formats/gguf/model.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::checkpoint {

/// Bytes of a tensor that are in memory at a time; at least one row, or the rows of one head.
inline constexpr uint64_t gguf_chunk_bytes = uint64_t{4} << 20;
/// Bytes of a transposed matrix that are in memory at a time; a larger matrix is read several times.
inline constexpr uint64_t gguf_transposed_bytes = uint64_t{64} << 20;

/// The file to write and its contents.
struct gguf_export_options {
  std::filesystem::path out;
  formats::gguf_mixture type;
  formats::gguf_model model;
  formats::gguf_metadata more;  ///< entries after the model's own keys: vocabulary, name, licence ...
  storage::progress_function progress{};
  /// Weights whose blocks an earlier pass has made, with rows in the source's order; null if no pass has made any.
  const prepared_weights* prepared = nullptr;
  /// True: blocks are decoded after quantising, and the report has the errors of the layers.
  bool measures_error = false;
};

/// The file that was written; `layers` has the block-quantised tensors, in the file's order.
struct gguf_export_report : compression_report {
  uint64_t bytes = 0;  ///< size of the written file in bytes
  uint64_t tensors = 0;
  uint64_t quantised_elements = 0, quantised_bytes = 0;  ///< elements and bytes of all block-quantised tensors
  /// Number of tensors that are stored in another type because their rows do not divide into blocks of the wanted type,
  /// by the name of the other type.
  std::map<std::string, uint64_t, std::less<>> other_types;
};

/// Returns the storage form of each block-quantised matrix, (out x in) whatever the source's order, by the tensor's
/// name in the source. Returns the errors of export_gguf() that do not depend on values.
core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const formats::tensor_source& from, const gguf_export_options& options);

/// Returns the size of the file in bytes, for a comparison with the free bytes before writing. Returns the errors of
/// export_gguf() that do not depend on values.
core::result<uint64_t> gguf_bytes(const formats::tensor_source& from, const gguf_export_options& options);

/// Writes the file, which appears as a whole or not at all. Errors name the tensor: mismatch for a parameter that the
/// family does not have, a missing parameter, or a shape other than the model's; numeric for a value that is not finite
/// or too large for a block.
core::result<gguf_export_report> export_gguf(const formats::tensor_source& from, const gguf_export_options& options);

}  // namespace troupe::checkpoint
