// Weights whose bytes were made before the export, and their places in a file next to the output. Leaves the writing of
// that file to weight_store.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/convert/compressed_layer.hpp"
#include "core/error.hpp"
#include "core/source_file.hpp"
#include "formats/compressed/stored_weight.hpp"
#include "storage/files/digest.hpp"

namespace troupe::checkpoint {

/// The position and the digest of one part (codes, scales ...) of a weight in the file of prepared weights.
struct prepared_part {
  formats::weight_part part = formats::weight_part::codes;
  uint64_t offset_bytes = 0, bytes = 0;
  storage::digest128 digest{};  ///< digest of the part's bytes
};

struct prepared_weight {
  std::vector<prepared_part> parts;
  rounding_error lost;
};

/// Prepared weights, by the tensor's name in the source, and the importance of each column of a tensor. Formats that
/// search for their scales weight the errors of a column by its importance.
struct prepared_weights {
  std::map<std::string, prepared_weight, std::less<>> weights;
  std::map<std::string, std::vector<float>, std::less<>> importance;
  std::shared_ptr<const core::source_file> file;

  [[nodiscard]] const prepared_weight* find(std::string_view tensor) const {
    const auto at = weights.find(tensor);
    return at == weights.end() ? nullptr : &at->second;
  }
  [[nodiscard]] std::span<const float> importance_of(std::string_view tensor) const {
    const auto at = importance.find(tensor);
    return at == importance.end() ? std::span<const float>() : std::span<const float>(at->second);
  }
  /// Reads bytes [offset, offset + out.size()) of a part; error_kind::bug if the part does not have that many.
  core::result<void> read(const prepared_weight& w, formats::weight_part part, uint64_t offset,
                          std::span<std::byte> out) const {
    for (const auto& p : w.parts)
      if (p.part == part && offset <= p.bytes && out.size() <= p.bytes - offset)
        return file->read(p.offset_bytes + offset, out);
    return core::fail(core::error_kind::bug, "a part of a prepared weight that is not there");
  }
};

}  // namespace troupe::checkpoint
