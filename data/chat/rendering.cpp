#include "data/chat/rendering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "data/templates/chat_template.hpp"

namespace troupe::data {
namespace {

/// Renders the beginnings of one conversation by one template.
class conversation_renderer {
 public:
  conversation_renderer(const chat_format& by, const chat_template& form, const conversation& from)
      : form_(form), from_(from), variables_(by.token_names()) {
    variables_["tools"] = nullptr;
    variables_["documents"] = nullptr;
    if (!by.date().empty()) set_time(by.date() + " 00:00:00");
    for (const auto& [name, value] : from.variables.items()) variables_[name] = value;
  }

  /// Sets the time that the template reads, such as 2026-01-31 23:59:58.
  void set_time(const std::string& time) { variables_["strftime_now"] = time; }

  /// Renders the first `messages` messages; `begins_answer`: the words that begin an answer follow them.
  core::result<rendered_chat> render_first(size_t messages, bool begins_answer) {
    auto list = nlohmann::ordered_json::array();
    for (size_t i = 0; i < messages; ++i) list.push_back(from_.messages[i]);
    variables_["messages"] = std::move(list);
    variables_["add_generation_prompt"] = begins_answer;
    return form_.render(variables_);
  }

 private:
  const chat_template& form_;
  const conversation& from_;
  nlohmann::ordered_json variables_;
};

/// Returns the answers among the texts that a template marks.
core::result<std::vector<text_span>> marked_answers(const rendered_chat& whole, const conversation& from,
                                                    core::loss_part part) {
  std::vector<text_span> out = whole.generated;
  size_t turns = 0;
  for (const auto& message : from.messages) turns += message["role"].get<std::string>() == "assistant" ? 1 : 0;
  if (part == core::loss_part::last && out.size() > turns)
    return core::refused(
        fmt::format("the template marks {} texts of {} messages of the assistant, so it is unknown which of them are "
                    "the last answer (data.loss_on)",
                    out.size(), turns));
  if (from.answers.size() != turns) {
    if (out.size() != turns)
      return core::refused(
          fmt::format("the template marks {} texts of {} messages of the assistant, so it is unknown "
                      "which of them are those that do not count",
                      out.size(), turns));
    std::vector<text_span> counted;
    size_t turn = 0;
    for (size_t i = 0; i < from.messages.size(); ++i) {
      if (from.messages[i]["role"].get<std::string>() != "assistant") continue;
      if (std::ranges::find(from.answers, i) != from.answers.end()) counted.push_back(out[turn]);
      ++turn;
    }
    out = std::move(counted);
  }
  if (part == core::loss_part::last && !out.empty()) out = {out.back()};
  return out;
}

/// Returns the text of message `k` in `whole`, by the difference of two renderings.
core::result<text_span> answer_between(conversation_renderer& by, size_t k, size_t messages, std::string_view whole) {
  const auto unstable = [&](const char* what) {
    return core::refused(
        fmt::format("the template writes the messages before message {}{} differently when further "
                    "messages follow, so the text of this answer cannot be told apart: use a "
                    "template that marks answers by {{% generation %}}, or data.loss_on: {}",
                    k + 1, what, core::name_of(core::loss_part::all)));
  };
  TROUPE_ASSIGN(const auto before, by.render_first(k, true));
  if (!whole.starts_with(before.text)) return unstable("");
  if (k + 1 == messages) return text_span{before.text.size(), whole.size()};
  TROUPE_ASSIGN(const auto with, by.render_first(k + 1, false));
  if (!whole.starts_with(with.text) || with.text.size() < before.text.size()) return unstable(" and itself");
  return text_span{before.text.size(), with.text.size()};
}

rendered_conversation joined_pair(const conversation& from, core::loss_part part) {
  rendered_conversation out{.text = from.prompt + from.completion, .counted = {}, .ends_text = true};
  const size_t begin = part == core::loss_part::all ? 0 : from.prompt.size();
  out.counted.push_back({begin, out.text.size()});
  return out;
}

}  // namespace

core::result<rendered_conversation> render(const chat_format& by, const conversation& from, core::loss_part part) {
  if (part == core::loss_part::all && from.leaves_out)
    return core::refused(
        "a message has the weight 0, and data.loss_on: all counts every token: set "
        "data.loss_on: assistant, or leave out the weights");
  const auto* const form = by.template_for(from.has_tools());
  if (form == nullptr) {
    if (from.is_pair() && from.messages.size() > 2)
      return core::refused(
          fmt::format("'system' has no place in a prompt and its completion that are {}: wanted a chat "
                      "template (data.chat_template), or the text as a part of 'prompt'",
                      joined_template));
    if (from.is_pair()) return joined_pair(from, part);
    return core::refused(
        fmt::format("data.chat_template: wanted a template for messages and for Alpaca's fields, got "
                    "{}, which is for prompts with completions",
                    joined_template));
  }
  conversation_renderer renderer(by, *form, from);
  const size_t messages = from.messages.size();
  if (by.reads_time() && by.date().empty()) {
    // A text with the present time would become other tokens on another day: a resumed run would not find its samples.
    renderer.set_time("2001-02-03 04:05:06");
    TROUPE_ASSIGN(const auto other, renderer.render_first(messages, false));
    renderer.set_time("2013-12-11 10:09:08");
    TROUPE_ASSIGN(const auto again, renderer.render_first(messages, false));
    if (other.text != again.text)
      return core::refused(
          "the template writes the time of its use: wanted a fixed date for it (data.chat_date), so "
          "that the samples are the same when the run is resumed, got none");
  }
  TROUPE_ASSIGN(auto whole, renderer.render_first(messages, false));
  rendered_conversation out;
  if (part == core::loss_part::all) {
    out.counted.push_back({0, whole.text.size()});
  } else if (form->marks_generation()) {
    TROUPE_ASSIGN(out.counted, marked_answers(whole, from, part));
  } else {
    std::span<const size_t> answers(from.answers);
    if (part == core::loss_part::last) answers = answers.last(1);
    for (const size_t k : answers) {
      TROUPE_ASSIGN(const auto answer, answer_between(renderer, k, messages, whole.text));
      out.counted.push_back(answer);
    }
  }
  std::erase_if(out.counted, [](const text_span& one) { return one.begin >= one.end; });
  if (out.counted.empty()) return core::refused("the template writes no text for the answers: nothing to learn from");
  out.text = std::move(whole.text);
  return out;
}

core::result<std::string> render_messages(const chat_format& by, const conversation& from, bool begins_answer) {
  const auto* const form = by.template_for(from.has_tools());
  if (form == nullptr) return core::refused(fmt::format("data.chat_template: {} renders no messages", joined_template));
  TROUPE_ASSIGN(auto made, conversation_renderer(by, *form, from).render_first(from.messages.size(), begins_answer));
  return std::move(made.text);
}

}  // namespace troupe::data
