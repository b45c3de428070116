// Defines the messages between processes that write a save together: the invitation to take part, the request, and the
// result of one rank's part. Plain data, with an encoding as bytes whose digest is checked when it is read. The caller
// sends the messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/saving/save_request.hpp"
#include "core/error.hpp"
#include "storage/files/digest.hpp"

namespace troupe::actors {

/// The result of one rank's part of a save, which is one file of the checkpoint.
struct part_result {
  uint32_t rank = 0;
  uint64_t file_bytes = 0;  ///< bytes of the rank's checkpoint file; 0 if the part failed
  double waited_s = 0;      ///< seconds that the writer lane waited for staging memory
  /// Piece digests, indexed by block and piece; empty for blocks that are not saved, or if the part failed
  std::vector<std::vector<storage::digest128>> digests{};
  std::optional<core::error> failure{};  ///< reason why the part failed; none: its file is complete and synced
};

/// Folder and id of a save that the leading process has begun, as other processes need them to take part in it.
struct save_invitation {
  std::filesystem::path working;  ///< folder that all processes write to
  storage::digest128 save_id;
  bool operator==(const save_invitation&) const = default;
};

/// Largest size in bytes of a text in a message, such as a configuration or the host program's client state.
inline constexpr uint64_t max_encoded_text_bytes = uint64_t{64} << 20;

/// encode() returns a message as bytes that end with their digest; the decode functions read them. Errors of decoding:
/// bad_input for bytes without a digest, changed bytes, or bytes of another type.
std::string encode(const part_result& part);
std::string encode(const save_invitation& invitation);
std::string encode(const save_request& request);
core::result<part_result> decode_part_result(std::string_view bytes);
core::result<save_invitation> decode_save_invitation(std::string_view bytes);
core::result<save_request> decode_save_request(std::string_view bytes);

}  // namespace troupe::actors
