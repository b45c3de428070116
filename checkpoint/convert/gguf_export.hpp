// Writes the weights of any checkpoint as one GGUF file that llama.cpp loads: names, order and types of the tensors,
// and the order of the work. The model's sizes and the vocabulary are the caller's. Memory is bounded, whatever the
// model.
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
#include "checkpoint/files/progress.hpp"
#include "checkpoint/gguf/metadata.hpp"
#include "checkpoint/gguf/mixture.hpp"
#include "checkpoint/gguf/model.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of a tensor that are held at a time, but for one row or the rows of one head.
inline constexpr uint64_t gguf_chunk_bytes = uint64_t{4} << 20;
/// Of a matrix that is transposed; a larger one is read several times.
inline constexpr uint64_t gguf_transposed_bytes = uint64_t{64} << 20;

/// What is written, and where.
struct gguf_export_options {
  std::filesystem::path out;
  gguf_mixture type;
  gguf_model model;
  gguf_metadata more;  ///< behind the model's own keys: vocabulary, name, licence, marks
  progress_function progress{};
  const prepared_weights* prepared = nullptr;  ///< tensors whose blocks are made already, row by row as ours; or null
  bool measures_error = false;  ///< layers have their errors: blocks are worked back as they come
};

/// What was written; layers are tensors of blocks, in the file's order.
struct gguf_export_report : compression_report {
  uint64_t bytes = 0;  ///< of the file
  uint64_t tensors = 0;
  uint64_t quantised_elements = 0, quantised_bytes = 0;  ///< in tensors of blocks
  /// Tensors whose rows are no whole blocks of the wanted type, by the type that they got.
  std::map<std::string, uint64_t, std::less<>> other_types;
};

/// How matrices are stored, (out x in) whatever the source's order, by the tensor's name in the source; refuses as
/// export_gguf().
core::result<std::map<std::string, std::shared_ptr<const stored_form>, std::less<>>> stored_forms(
    const tensor_source& from, const gguf_export_options& options);

/// Bytes of the file, for a look at what is free before it is written; refuses as export_gguf().
core::result<uint64_t> gguf_bytes(const tensor_source& from, const gguf_export_options& options);

/// The file appears whole or not at all. Refused: a parameter that the family has not, a missing one, a shape that is
/// not the model's (mismatch), a value that is not finite or beyond what a block holds (numeric), with the tensor.
core::result<gguf_export_report> export_gguf(const tensor_source& from, const gguf_export_options& options);

}  // namespace troupe::checkpoint
