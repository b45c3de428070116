#include "data/chat/conversation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "core/json_text.hpp"
#include "core/text.hpp"

namespace troupe::data {
namespace {

using ordered = nlohmann::ordered_json;

constexpr size_t most_shown_columns = 8;
constexpr int64_t ignored_label = -100;  // PyTorch's ignore_index, which transformers uses for labels that do not count

/// Columns by which other trainers say which tokens count; here labels do.
constexpr std::array mask_columns{"completion_mask", "assistant_masks", "loss_mask"};

/// Columns with what a conversation refers to beside its text.
constexpr std::array unread_media{"image", "images", "audio", "audios", "video", "videos"};

/// Names of a message's reasoning; transformers gives templates the first two, whichever of them a message has.
constexpr std::array reasoning_names{"reasoning_content", "thinking", "reasoning"};

/// Speakers of ShareGPT's form, and their roles in OpenAI's.
constexpr std::array<std::pair<std::string_view, const char*>, 11> speakers{{{"human", "user"},
                                                                             {"user", "user"},
                                                                             {"gpt", "assistant"},
                                                                             {"assistant", "assistant"},
                                                                             {"chatgpt", "assistant"},
                                                                             {"bot", "assistant"},
                                                                             {"model", "assistant"},
                                                                             {"system", "system"},
                                                                             {"tool", "tool"},
                                                                             {"observation", "tool"},
                                                                             {"function_response", "tool"}}};

const ordered& member_of(const ordered& from, std::string_view key) {
  static const ordered nothing;
  const auto at = from.is_object() ? from.find(std::string(key)) : from.end();
  return from.is_object() && at != from.end() ? *at : nothing;
}

/// Returns the names of a row's columns, for errors.
std::string columns_in(const ordered& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items())
    if (names.size() < most_shown_columns) names.push_back(core::shown(name));
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

tl::unexpected<core::error> wrong_message(size_t index, const std::string& why) {
  return core::refused(fmt::format("message {}: {}", index + 1, why));
}

/// Copies a message without members that are null, and gives its reasoning all names that templates read.
ordered plain_message(const ordered& message) {
  ordered out = ordered::object();
  const ordered* reasoning = nullptr;
  for (const char* name : reasoning_names)
    if (const auto& value = member_of(message, name); reasoning == nullptr && !value.is_null()) reasoning = &value;
  if (reasoning != nullptr) out["thinking"] = *reasoning;
  for (const auto& [name, value] : message.items())
    if (!value.is_null() && name != "weight") out[name] = value;
  if (reasoning != nullptr) out["reasoning_content"] = *reasoning;
  return out;
}

/// Returns a message of ShareGPT's form in OpenAI's; members beside the speaker and the text, such as tool_calls, stay.
ordered openai_message(const ordered& message, const char* role) {
  ordered out{{"role", role}, {"content", message["value"]}};
  for (const auto& [name, value] : message.items())
    if (name != "from" && name != "value" && !out.contains(name)) out[name] = value;
  return out;
}

core::result<void> check_content(size_t index, const ordered& message) {
  const auto& content = member_of(message, "content");
  if (content.is_string()) return {};
  if (content.is_null()) {
    if (message.contains("tool_calls")) return {};
    return wrong_message(index, "wanted text under 'content', got none");
  }
  if (!content.is_array())
    return wrong_message(index,
                         fmt::format("wanted text or a list of parts under 'content', got {}", content.type_name()));
  for (const auto& part : content) {
    const auto& type = member_of(part, "type");
    if (!part.is_object() || !type.is_string() || type.get<std::string>() != "text" ||
        !member_of(part, "text").is_string())
      return wrong_message(index, fmt::format("wanted parts with \"type\": \"text\" under 'content', got {}",
                                              type.is_string() ? core::shown(type.get<std::string>()) : "another"));
  }
  return {};
}

/// Returns whether an answer with `weight` counts.
core::result<bool> counts_by(size_t index, const ordered& weight) {
  if (weight.is_null()) return true;
  if (weight.is_number() && (weight.get<double>() == 0 || weight.get<double>() == 1)) return weight.get<double>() == 1;
  return wrong_message(index, fmt::format("wanted 0 or 1 as 'weight', got {}", core::shown(weight.dump())));
}

/// Adds the messages of `list` to `out`. `are_answers`: messages of the assistant are answers to learn from.
core::result<void> add_messages(const ordered& list, bool are_answers, conversation& out) {
  for (const auto& item : list) {
    const size_t index = out.messages.size();
    if (!item.is_object())
      return wrong_message(index, fmt::format("wanted an object with a role, got {}", item.type_name()));
    if (!member_of(item, "function_call").is_null())
      return wrong_message(index,
                           "'function_call' is OpenAI's older form, which chat templates do not read: write it "
                           "as 'tool_calls'");
    if (!member_of(item, "train").is_null())
      return wrong_message(index, "'train' is not read: write \"weight\": 0 in an answer that does not count");
    ordered message = plain_message(item);
    const auto& weight = member_of(item, "weight");
    if (!member_of(message, "role").is_string() && member_of(message, "from").is_string()) {
      const auto speaker = message["from"].get<std::string>();
      const auto* const known = std::ranges::find_if(speakers, [&](const auto& one) { return one.first == speaker; });
      if (known == speakers.end())
        return wrong_message(index, fmt::format("the speaker '{}' is not known: wanted human, gpt, system or tool",
                                                core::shown(speaker)));
      if (!member_of(message, "value").is_string()) return wrong_message(index, "wanted text under 'value', got none");
      message = openai_message(message, known->second);
    }
    if (!member_of(message, "role").is_string())
      return wrong_message(index, fmt::format("wanted a role (or ShareGPT's from), got {}", columns_in(item)));
    TROUPE_TRY(check_content(index, message));
    TROUPE_ASSIGN(const bool counts, counts_by(index, weight));
    out.has_weights = out.has_weights || !weight.is_null();
    const bool is_answer = message["role"].get<std::string>() == "assistant";
    if (!is_answer && !weight.is_null() && counts)
      return wrong_message(index,
                           fmt::format("wanted no 'weight' in a message of the {}: answers of the assistant alone "
                                       "can count one by one, and data.loss_on: all counts every token",
                                       core::shown(message["role"].get<std::string>())));
    if (are_answers && counts && is_answer) out.answers.push_back(index);
    out.leaves_out = out.leaves_out || !counts;
    out.messages.push_back(std::move(message));
  }
  return {};
}

/// Returns the list under `key`, which may also be written as the text of a JSON list; null for none and for an empty
/// one.
core::result<ordered> list_at(const ordered& row, const char* key) {
  const auto& said = member_of(row, key);
  ordered list = said;
  if (said.is_string()) {
    const auto text = said.get<std::string>();
    if (core::trimmed(text).empty()) return ordered();
    auto parsed = core::parse_json<ordered>(text);
    if (!parsed) return core::refused(fmt::format("'{}': {}", key, parsed.error().why));
    list = std::move(*parsed);
  }
  if (list.is_null()) return ordered();
  if (!list.is_array()) return core::refused(fmt::format("wanted a list under '{}', got {}", key, list.type_name()));
  return list.empty() ? ordered() : list;
}

/// Sets the variables of the template that a row has beside its messages.
core::result<void> add_variables(const ordered& row, conversation& out) {
  for (const char* key : unread_media)
    if (const auto& media = member_of(row, key); !media.is_null() && !media.empty())
      return core::refused(fmt::format("'{}' holds what is no text: models here read text alone", key));
  if (const auto& old = member_of(row, "functions"); !old.is_null() && !old.empty())
    return core::refused("'functions' is OpenAI's older form, which chat templates do not read: write it as 'tools'");
  for (const char* key : {"tools", "documents"}) {
    TROUPE_ASSIGN(auto list, list_at(row, key));
    if (!list.is_null()) out.variables[key] = std::move(list);
  }
  const auto& more = member_of(row, "chat_template_kwargs");
  if (more.is_null()) return {};
  if (!more.is_object())
    return core::refused(fmt::format("wanted an object under 'chat_template_kwargs', got {}", more.type_name()));
  for (const auto& [name, value] : more.items()) {
    if (name == "messages" || name == "add_generation_prompt")
      return core::refused(fmt::format("'chat_template_kwargs': wanted no '{}', which the rendering sets", name));
    out.variables[name] = value;
  }
  return {};
}

core::result<std::string> text_at(const ordered& row, const char* key, bool is_needed) {
  const auto& value = member_of(row, key);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null() && !is_needed) return std::string();
  return core::refused(fmt::format("wanted text under '{}', got {}", key,
                                   value.is_null() ? columns_in(row) : std::string(value.type_name())));
}

/// Adds the message that a row may state beside its conversation, under `system` or `system_prompt`.
core::result<void> add_system(const ordered& row, conversation& out) {
  TROUPE_ASSIGN(auto text, text_at(row, "system", false));
  TROUPE_ASSIGN(const auto prompt, text_at(row, "system_prompt", false));
  if (!text.empty() && !prompt.empty() && text != prompt)
    return core::refused("'system' and 'system_prompt' have different texts: keep the one that is meant");
  if (text.empty()) text = prompt;
  if (!text.empty()) out.messages.push_back(ordered{{"role", "system"}, {"content", text}});
  return {};
}

core::result<conversation> chat_of(const ordered& row, const std::string& key) {
  const ordered* list = nullptr;
  const auto names = key.empty() ? std::vector<std::string>{"messages", "conversations"} : std::vector{key};
  for (const auto& name : names)
    if (const auto& value = member_of(row, name); !value.is_null()) {
      if (list != nullptr)
        return core::refused(
            "the row has 'messages' and 'conversations': say by data.text_key which of the two is meant");
      list = &value;
    }
  if (list == nullptr)
    return core::refused(fmt::format("wanted a conversation under {}, got {}",
                                     key.empty() ? "'messages' or 'conversations'" : fmt::format("'{}'", key),
                                     columns_in(row)));
  if (!list->is_array()) return core::refused(fmt::format("wanted a list of messages, got {}", list->type_name()));
  conversation out;
  TROUPE_TRY(add_system(row, out));
  TROUPE_TRY(add_messages(*list, true, out));
  TROUPE_TRY(add_variables(row, out));
  return out;
}

void add_turns(const std::string& user, const std::string& assistant, conversation& out) {
  out.messages.push_back(ordered{{"role", "user"}, {"content", user}});
  out.messages.push_back(ordered{{"role", "assistant"}, {"content", assistant}});
  out.answers.push_back(out.messages.size() - 1);
}

core::result<conversation> instruct_of(const ordered& row) {
  conversation out;
  if (const auto& turns = member_of(row, "history"); !turns.is_null() && !turns.empty())
    return core::refused(
        "'history' has turns before the prompt, which this form does not read: write the row as a "
        "list of 'messages' (form chat)");
  if (const auto& more = member_of(row, "context"); !more.is_null() && !more.empty() && more != ordered(""))
    return core::refused("'context' is a text that this form does not read: put it into 'input' or into the prompt");
  TROUPE_TRY(add_system(row, out));
  TROUPE_TRY(add_variables(row, out));
  if (!member_of(row, "completion").is_null() || (row.contains("completion") && !row.contains("instruction"))) {
    const auto &prompt = member_of(row, "prompt"), &completion = member_of(row, "completion");
    if (prompt.is_array() && completion.is_array()) {
      TROUPE_TRY(add_messages(prompt, false, out));
      TROUPE_TRY(add_messages(completion, true, out));
      return out;
    }
    TROUPE_ASSIGN(out.prompt, text_at(row, "prompt", true));
    TROUPE_ASSIGN(out.completion, text_at(row, "completion", true));
    if (out.completion.empty()) return core::refused("the completion is empty: wanted an answer to learn from");
    add_turns(out.prompt, out.completion, out);
    return out;
  }
  if (!row.contains("instruction"))
    return core::refused(
        fmt::format("wanted 'prompt' and 'completion', or Alpaca's 'instruction', 'input' and "
                    "'output', got {}",
                    columns_in(row)));
  TROUPE_ASSIGN(const auto instruction, text_at(row, "instruction", true));
  TROUPE_ASSIGN(const auto input, text_at(row, "input", false));
  TROUPE_ASSIGN(const auto output, text_at(row, "output", true));
  if (output.empty()) return core::refused("the output is empty: wanted an answer to learn from");
  add_turns(input.empty() ? instruction : instruction + "\n\n" + input, output, out);
  return out;
}

/// Returns the integers of a list under `key`; nullopt if the row has none.
core::result<std::optional<std::vector<int64_t>>> integers_at(const ordered& row, const char* key) {
  const auto& list = member_of(row, key);
  if (list.is_null()) return std::optional<std::vector<int64_t>>();
  if (!list.is_array())
    return core::refused(fmt::format("wanted a list of integers under '{}', got {}", key, list.type_name()));
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const auto& item : list) {
    const bool is_too_large = item.is_number_unsigned() && item.get<uint64_t>() > uint64_t{INT64_MAX};
    if (!item.is_number_integer() || is_too_large)
      return core::refused(fmt::format("wanted integers{} under '{}', got {} at place {}",
                                       is_too_large ? " below 2^63" : "", key, core::shown(item.dump()), out.size()));
    out.push_back(item.get<int64_t>());
  }
  return std::optional(std::move(out));
}

}  // namespace

std::vector<std::string> columns_of(core::sample_form form, const std::string& key) {
  std::vector<std::string> out;
  switch (form) {
    case core::sample_form::chat:
      out = key.empty() ? std::vector<std::string>{"messages", "conversations"} : std::vector{key};
      break;
    case core::sample_form::instruct:
      out = {"prompt", "completion", "instruction", "input", "output", "history", "context"};
      break;
    case core::sample_form::labelled:
      return {"input_ids", "labels", "attention_mask", mask_columns[0], mask_columns[1], mask_columns[2]};
    case core::sample_form::text:
      return {};
  }
  out.insert(out.end(), {"system", "system_prompt", "tools", "functions", "documents", "chat_template_kwargs"});
  out.insert(out.end(), unread_media.begin(), unread_media.end());
  return out;
}

core::result<conversation> conversation_of(const ordered& row, core::sample_form form, const std::string& key) {
  if (!row.is_object()) return core::refused(fmt::format("wanted an object, got {}", row.type_name()));
  TROUPE_ASSIGN(auto out, form == core::sample_form::instruct ? instruct_of(row) : chat_of(row, key));
  if (out.answers.empty())
    return core::refused(out.has_weights
                             ? "no message of the assistant has the weight 1: wanted an answer to learn from"
                             : "the conversation has no message of the assistant: wanted an answer to learn from");
  return out;
}

core::result<labelled_tokens> labelled_tokens_of(const ordered& row, uint64_t vocab_size) {
  if (!row.is_object()) return core::refused(fmt::format("wanted an object, got {}", row.type_name()));
  TROUPE_ASSIGN(const auto ids, integers_at(row, "input_ids"));
  TROUPE_ASSIGN(const auto labels, integers_at(row, "labels"));
  TROUPE_ASSIGN(const auto seen, integers_at(row, "attention_mask"));
  if (!ids) return core::refused(fmt::format("wanted a list of tokens under 'input_ids', got {}", columns_in(row)));
  for (const char* mask : mask_columns)
    if (!labels && !member_of(row, mask).is_null())
      return core::refused(
          fmt::format("wanted 'labels', which are {} where '{}' is 0, got '{}' without them: masks are "
                      "not read",
                      ignored_label, mask, mask));
  for (const auto& [name, list] : {std::pair("labels", &labels), std::pair("attention_mask", &seen)})
    if (*list && (*list)->size() != ids->size())
      return core::refused(
          fmt::format("wanted as many '{}' as 'input_ids', got {} and {}", name, (*list)->size(), ids->size()));
  labelled_tokens out;
  for (size_t i = 0; i < ids->size(); ++i) {
    const int64_t token = (*ids)[i], label = labels ? (*labels)[i] : token;
    if (token < 0 || static_cast<uint64_t>(token) >= vocab_size)
      return core::refused(
          fmt::format("'input_ids': token {} at place {} lies outside the vocabulary of {}", token, i, vocab_size));
    if (seen && (*seen)[i] != 1)
      return core::refused(
          fmt::format("'attention_mask': wanted 1 for every token, got {} at place {}: store samples without padding",
                      (*seen)[i], i));
    if (label != ignored_label && label != token)
      return core::refused(
          fmt::format("'labels': wanted the token {} or {} at place {}, got {}: a label states whether its own token "
                      "counts",
                      token, ignored_label, i, label));
    out.tokens.push_back(static_cast<uint32_t>(token));
    out.counts.push_back(label != ignored_label);
  }
  return out;
}

}  // namespace troupe::data
