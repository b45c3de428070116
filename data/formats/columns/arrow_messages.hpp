// Finds the messages of an Arrow file or stream one after the other: a schema, then dictionaries and batches of rows.
// Owns where messages are and in which order they come; leaves their content to arrow.cpp and arrow_rows.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/columns/flat_reader.hpp"

namespace troupe::data {

/// Types of messages, by Arrow's numbers.
enum class arrow_header : uint8_t { schema = 1, dictionary = 2, batch = 3 };

/// A message: its header, valid during the call that receives it, and the bytes of its body in the file.
struct arrow_message {
  arrow_header type = arrow_header::schema;
  int16_t version = 0;
  flat_table header;
  uint64_t body_begin = 0, body_bytes = 0;
};

class arrow_messages {
 public:
  /// Function that receives a message. An error of the function ends the reading.
  using message_visit = std::function<core::result<void>(const arrow_message& message)>;
  /// Function that is called before each message with its byte in the file, so that reading can be stopped.
  using byte_visit = std::function<core::result<void>(uint64_t byte)>;

  explicit arrow_messages(const core::source_file& file) : file_(file), end_(file.size()) {}

  /// Passes the messages of the file to `take`: the schema first, and no second one. Errors: bad_input or limit, with
  /// the file's name and the message's byte, for content that is broken, cut off or too large.
  core::result<void> read(const byte_visit& watch, const message_visit& take);

  /// Returns the error `why`, with the file's name and the byte of the present message.
  [[nodiscard]] tl::unexpected<core::error> lies(const std::string& why, error_kind kind = error_kind::bad_input) const;
  [[nodiscard]] tl::unexpected<core::error> lies(const core::error& why) const { return lies(why.text, why.kind); }

 private:
  [[nodiscard]] tl::unexpected<core::error> no_arrow(const std::string& why) const;
  core::result<void> begin();
  bool holds_stream();
  core::result<void> read_by_footer(const byte_visit& watch, const message_visit& take);
  core::result<uint32_t> number();
  core::result<bool> read_message(const message_visit& take);
  core::result<void> give(uint8_t type, const arrow_message& message, const message_visit& take);

  const core::source_file& file_;
  uint64_t at_ = 0, end_, message_ = 0;
  bool is_file_ = false, has_schema_ = false;
  std::vector<std::byte> described_;
};

}  // namespace troupe::data
