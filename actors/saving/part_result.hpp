// What processes tell each other about a save that they write together: the invitation to join, what is saved, and how
// a rank's part ended. Plain data, and as bytes that are checked when they are read; who sends them is the caller's
// business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/saving/save_request.hpp"
#include "checkpoint/files/digest.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// One rank's part of a save, when it has ended.
struct part_result {
  uint32_t rank = 0;
  uint64_t file_bytes = 0;  ///< of its file; 0 where the part failed
  double waited_s = 0;      ///< for staging memory
  std::vector<std::vector<checkpoint::digest128>>
      digests{};                         ///< [block][piece]; none of blocks not taken, or where the part failed
  std::optional<core::error> failure{};  ///< none: its file is whole and synced
};

/// Where the process that leads a save has begun it.
struct save_invitation {
  std::filesystem::path working;  ///< the folder that all write to
  checkpoint::digest128 save_id;
  bool operator==(const save_invitation&) const = default;
};

/// Longest text in bytes: a configuration, a host's state.
inline constexpr uint64_t max_encoded_text_bytes = uint64_t{64} << 20;

/// As bytes that end with their digest. Back: bad_input where one is missing, changed, or of something else.
std::string encode(const part_result& part);
std::string encode(const save_invitation& invitation);
std::string encode(const save_request& request);
core::result<part_result> decode_part_result(std::string_view bytes);
core::result<save_invitation> decode_save_invitation(std::string_view bytes);
core::result<save_request> decode_save_request(std::string_view bytes);

}  // namespace troupe::actors
