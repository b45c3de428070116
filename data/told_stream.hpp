// Lets processes of one machine share a source that one of them has expanded or encoded: that process passes on the
// descriptor of its nameless file and a description of its tokens ("facts"). Both processes then have the same tokens.
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
  /// Returns the description of a stream ("facts") with which another process can open the stream's nameless file;
  /// nullopt unless one nameless file contains all tokens; the other process then reads the source's files itself.
  static std::optional<std::string> facts_of(const token_stream& x);
  /// Returns a new descriptor of the stream's nameless file. Requires a stream that has facts. Errors: limit.
  static core::result<int> descriptor_of(const token_stream& x);
  /// Returns the stream that `facts` and `descriptor` describe; takes ownership of the descriptor. Errors: mismatch for
  /// bytes that are not facts, and for a file that is too short; errors of reading files.
  static core::result<std::shared_ptr<const token_stream>> stream_of(std::string_view facts, int descriptor);
};

}  // namespace troupe::data
