// Writes a dict of tensors and plain values as torch.save would: a file that torch.load(weights_only=True) opens.
// Owns the pickle and the storages' numbers; the container is zip_writer's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <variant>

#include "checkpoint/safetensors_writer.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// None, bool, int, float or str.
using plain_value = std::variant<std::monostate, bool, int64_t, double, std::string>;
using plain_values = std::map<std::string, plain_value>;

/// Replaces `path` as a whole or leaves what was there. Each tensor has a storage of exactly its own size; a name in
/// `shared` (alias -> name of a tensor) is one more view of that tensor's storage. The dict has the tensors in the
/// given order, then the aliases, then `values`. Refused: names twice, an alias of nothing, shapes that do not fit.
core::result<void> write_torch_archive(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                       const std::map<std::string, std::string>& shared = {},
                                       const plain_values& values = {});

}  // namespace troupe::checkpoint
