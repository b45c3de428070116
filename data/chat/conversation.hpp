// Reads conversations out of the rows of a source: OpenAI's `messages`, ShareGPT's `conversations`, prompts with their
// completions, Alpaca's three fields. Owns which keys are read and which messages are answers; leaves the text of a
// conversation to rendering.hpp.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/sample_types.hpp"

namespace troupe::data {

/// A row as the messages that a chat template reads, or as a prompt and its completion.
struct conversation {
  /// Messages in OpenAI's form; empty for a row with `prompt` and `completion` that are texts.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  /// Variables of the template beside the messages: tools, documents, and those of `chat_template_kwargs`; an object.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  /// Indices of the messages that are answers to learn from, ascending.
  std::vector<size_t> answers;
  bool has_weights = false;  ///< true: a message has a `weight`, with which OpenAI's format leaves out answers
  bool leaves_out = false;   ///< true: a message has the weight 0
  /// Texts of a row with a prompt and a completion, which need no template; else empty.
  std::string prompt, completion;

  /// True if the row has a prompt and a completion that are texts; messages then ends with them as two messages.
  [[nodiscard]] bool is_pair() const { return !completion.empty(); }
  [[nodiscard]] bool has_tools() const { return variables.contains("tools"); }
};

/// Names of the columns from which conversations of `form` are made; `key` is the column of messages, empty: one of the
/// usual names.
std::vector<std::string> columns_of(core::sample_form form, const std::string& key);

/// Returns the conversation in `row`. `key` names the list of messages; empty: `messages` or `conversations`. Messages
/// lose members that are null, and get reasoning under all its names, as transformers does before it renders a
/// template. Errors (bad_input), without the row's place: no conversation, a conversation without an answer, messages
/// of another form, an unknown speaker in ShareGPT's form, parts of a message that are not text.
core::result<conversation> conversation_of(const nlohmann::ordered_json& row, core::sample_form form,
                                           const std::string& key);

/// The tokens of a row that a program has prepared, and which of them count.
struct labelled_tokens {
  std::vector<uint32_t> tokens;
  std::vector<bool> counts;  ///< [token]: its label is the token itself, not -100
};

/// Returns the tokens in the columns `input_ids` and `labels` of `row`; without labels all tokens count. Errors
/// (bad_input), without the row's place: lists of different lengths, a label that is neither -100 nor its token, an
/// `attention_mask` that hides tokens, numbers that are no tokens of a vocabulary of `vocab_size`.
core::result<labelled_tokens> labelled_tokens_of(const nlohmann::ordered_json& row, uint64_t vocab_size);

}  // namespace troupe::data
