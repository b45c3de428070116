// A source that one process of a machine has expanded or encoded, as others of the machine have it without doing that
// again: the descriptor of its nameless file, and what is known of the tokens in it. Owns that both are the same
// source.
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
  /// What others need to know; nothing where tokens lie in files that they can read for themselves.
  static std::optional<std::string> facts_of(const token_stream& x);
  /// A descriptor for them. Only of a stream that has facts. Errors: limit.
  static core::result<int> descriptor_of(const token_stream& x);
  /// The same stream; takes the descriptor over. Errors: mismatch for bytes that are no facts; those of reading files.
  static core::result<std::shared_ptr<const token_stream>> stream_of(std::string_view facts, int descriptor);
};

}  // namespace troupe::data
