// Executes a load plan: range reads in bounded blocks, digests compared where whole pieces arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/load_plan.hpp"
#include "checkpoint/manifest_file.hpp"
#include "checkpoint/native_files.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Most bytes that one read asks for.
inline constexpr size_t read_block_bytes = size_t{4} << 20;

struct read_options {
  bool verify = true;  ///< compare digests of pieces that are read whole
};

struct read_report {
  uint64_t bytes = 0;
  uint64_t verified_bytes = 0;  ///< of these; the rest are parts of pieces, whose digest says nothing of a part
};

/// Fills `destination`, of at least plan.destination_bytes. Each file is opened once and its header checked. Errors
/// name file and offset, a broken piece its tensor too; then `destination` holds no answer.
core::result<read_report> read_pieces(file_system& files, const checkpoint_folder& from, const load_plan& plan,
                                      std::span<std::byte> destination, const read_options& options = {});

}  // namespace troupe::checkpoint
