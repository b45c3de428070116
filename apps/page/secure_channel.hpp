// How bytes of one connection come and go: plainly, or through TLS (OpenSSL, seen in secure_channel.cpp alone). Never
// waits. Owns no descriptor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "core/error.hpp"

namespace troupe::apps {

class byte_channel {  ///< of one connection
 public:
  /// What became of a call: so many bytes, or none of them.
  enum class outcome : uint8_t { moved, wants_to_read, wants_to_write, over };
  struct moved_bytes {
    outcome what = outcome::over;
    size_t bytes = 0;
  };
  virtual ~byte_channel() = default;
  virtual moved_bytes read(char* into, size_t most) = 0;
  virtual moved_bytes write(const char* from, size_t bytes) = 0;
};

class channel_maker {  ///< for connections of one server
 public:
  virtual ~channel_maker() = default;
  /// For a connected socket that does not block. Null where there is no memory.
  virtual std::unique_ptr<byte_channel> make(int socket) = 0;
  [[nodiscard]] virtual bool is_secure() const = 0;
};

std::unique_ptr<channel_maker> plain_channels();
/// Errors: bad_input for a certificate or key that will not do, or a key that others can read.
core::result<std::unique_ptr<channel_maker>> secure_channels(const std::filesystem::path& certificate,
                                                             const std::filesystem::path& key);

/// bad_input where the file is not its user's alone; io where it cannot be looked at.
core::result<void> check_private(const std::filesystem::path& file, const char* what_key);

}  // namespace troupe::apps
