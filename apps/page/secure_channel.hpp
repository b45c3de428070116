// Moves the bytes of one connection, plainly or through TLS (OpenSSL, included only by secure_channel.cpp). Never
// blocks. Owns no descriptor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "core/error.hpp"

namespace troupe::apps {

class byte_channel {  ///< reads and writes the bytes of one connection
 public:
  /// Outcome of a call: bytes were moved, the socket must become ready first, or the connection is over.
  enum class outcome : uint8_t { moved, wants_to_read, wants_to_write, over };
  struct moved_bytes {
    outcome what = outcome::over;
    size_t bytes = 0;
  };
  virtual ~byte_channel() = default;
  virtual moved_bytes read(char* into, size_t most) = 0;
  virtual moved_bytes write(const char* from, size_t bytes) = 0;
};

class channel_maker {  ///< makes the channels of a server's connections
 public:
  virtual ~channel_maker() = default;
  /// Returns a channel for a connected non-blocking socket. Null if memory is exhausted.
  virtual std::unique_ptr<byte_channel> make(int socket) = 0;
  [[nodiscard]] virtual bool is_secure() const = 0;
};

std::unique_ptr<channel_maker> plain_channels();
/// Returns TLS channels. Errors: bad_input for an unusable certificate or key, or a key that other users can read.
core::result<std::unique_ptr<channel_maker>> secure_channels(const std::filesystem::path& certificate,
                                                             const std::filesystem::path& key);

/// Checks that only the owner of `file` can read it. Errors: bad_input; io if the file cannot be examined.
core::result<void> check_private(const std::filesystem::path& file, const char* what_key);

}  // namespace troupe::apps
