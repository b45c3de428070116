// Lets processes of one machine share a source that one of them has expanded or encoded: they pass the descriptor of
// its nameless file and the facts about its tokens. Ensures that both processes have the same tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/token_stream.hpp"

namespace troupe::data {

class told_streams {
 public:
  /// Returns text about the stream's tokens, for another process to open it; nullopt if that process can read the files
  /// itself.
  static std::optional<std::string> facts_of(const token_stream& x);
  /// Returns a new descriptor of the stream's nameless file. Requires a stream that has facts. Errors: limit.
  static core::result<int> descriptor_of(const token_stream& x);
  /// Returns the stream that `facts` and `descriptor` describe; takes ownership of the descriptor. Errors: mismatch for
  /// bytes that are not facts, and for a file that is too short; errors of reading files.
  static core::result<std::shared_ptr<const token_stream>> stream_of(std::string_view facts, int descriptor);
};

}  // namespace troupe::data
