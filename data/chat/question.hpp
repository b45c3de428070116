// Renders a question as the tokens that come before its answer, and finds the tokens that end an answer. Owns the
// choice of these; leaves the generation of the answer to a session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/chat/chat_format.hpp"

namespace troupe::data {

struct asked_question {
  std::vector<uint32_t> tokens;  ///< tokens of the question, and of the words that begin an answer
  /// Tokens that end an answer: the end of a text, and the special token that the template writes after an answer;
  /// empty: neither exists.
  std::vector<uint32_t> ends;
};

/// Returns the tokens of a conversation that consists of a user's `question`. Without a template (joined_template) the
/// question is the whole text. Errors: those of the template and of the tokenizer; bad_input for a question without a
/// token.
core::result<asked_question> ask(const chat_format& by, const std::string& question);

}  // namespace troupe::data
