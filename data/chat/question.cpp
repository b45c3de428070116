#include "data/chat/question.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/chat/conversation.hpp"
#include "data/chat/rendering.hpp"

namespace troupe::data {
namespace {

/// Answer whose end is searched in a rendered conversation: letters alone, which no template changes.
constexpr std::string_view sought_answer = "Answer";

/// Returns the first token of the text that the template writes after an answer, if that token is a special one.
core::result<std::vector<uint32_t>> end_of_turn(const chat_format& by, conversation talk) {
  talk.messages.push_back(nlohmann::ordered_json{{"role", "assistant"}, {"content", std::string(sought_answer)}});
  const auto whole = render_messages(by, talk, false);
  // A template may refuse an answer or leave it out, and still render the question: then only the text's end is known.
  const size_t at = whole ? whole->rfind(sought_answer) : std::string::npos;
  std::vector<uint32_t> rest;
  if (at == std::string::npos) return rest;
  TROUPE_TRY(by.tokenizer().encode(std::string_view(*whole).substr(at + sought_answer.size()), rest));
  const auto& special = by.tokenizer().marked().special;
  const bool is_sign = !rest.empty() && std::ranges::find(special, rest.front()) != special.end();
  rest.erase(rest.begin() + (is_sign ? 1 : 0), rest.end());
  return rest;
}

}  // namespace

core::result<asked_question> ask(const chat_format& by, const std::string& question) {
  conversation talk;
  talk.messages.push_back(nlohmann::ordered_json{{"role", "user"}, {"content", question}});
  asked_question out;
  std::string text = question;
  if (by.template_for(false) != nullptr) {
    TROUPE_ASSIGN(text, render_messages(by, talk, true));
    TROUPE_ASSIGN(out.ends, end_of_turn(by, talk));
  }
  TROUPE_TRY(by.tokenizer().encode(text, out.tokens));
  if (out.tokens.empty()) return core::refused("wanted at least one token, got none");
  if (const auto end = by.end_of_text(); end && std::ranges::find(out.ends, *end) == out.ends.end())
    out.ends.push_back(*end);
  return out;
}

}  // namespace troupe::data
