#include "apps/base/training/text_sample.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.hpp"

namespace troupe::apps {

core::result<void> text_sample::prepare(const actors::session& s) {
  if (!is_wanted() || config_.sample.question.empty()) return {};
  const auto& d = config_.data;
  auto opened = data::chat_format::open(d.tokenizer_path, d.chat_template, d.chat_date);
  if (!opened) return core::fail(opened.error().in("sample.question"));
  format_ = std::make_shared<const data::chat_format>(std::move(*opened));
  auto asked = data::ask(*format_, config_.sample.question);
  if (!asked) return core::fail(asked.error().in("sample.question"));
  question_ = std::move(*asked);
  const uint64_t longest = s.sequence();
  if (question_.tokens.size() < longest) return {};
  return core::refused(
      fmt::format("sample.question: wanted fewer tokens than the {} of data.sequence_length, so that "
                  "an answer follows, got {}",
                  longest, question_.tokens.size()));
}

core::result<text_sample::made_text> text_sample::answer(actors::session& s) const {
  const std::vector<int64_t> prompt(question_.tokens.begin(), question_.tokens.end());
  const std::vector<int64_t> ends(question_.ends.begin(), question_.ends.end());
  // An answer that does not end goes on up to the row's end: the question would leave the tokens that the model reads.
  const uint64_t most = std::min<uint64_t>(config_.sample.tokens, s.sequence() - prompt.size());
  TROUPE_ASSIGN(auto text, s.generate(prompt, most, config_.sample.temperature, ends));
  if (!ends.empty() && std::ranges::find(ends, text.back()) != ends.end()) text.pop_back();
  const std::vector<uint32_t> answer(text.begin() + static_cast<ptrdiff_t>(prompt.size()), text.end());
  return made_text{config_.sample.question + "\n" + format_->tokenizer().decode(answer)};
}

core::result<text_sample::made_text> text_sample::make(actors::session& s) const {
  if (!is_wanted()) return made_text{};
  if (format_ != nullptr) return answer(s);
  data::tokenizer* const tokenizer = s.tokenizer();
  if (tokenizer == nullptr) return made_text{{}, "since the tokenizer of the tokens is not known: set data.tokenizer"};
  std::vector<uint32_t> ids;
  if (auto ok = tokenizer->encode(config_.sample.prompt, ids); !ok) return core::fail(ok.error().in("sample.prompt"));
  // An empty prompt begins a document, which the end-of-text token precedes.
  if (ids.empty() && tokenizer->end_of_text()) ids.push_back(*tokenizer->end_of_text());
  if (ids.empty())
    return made_text{{},
                     "since sample.prompt is empty and the tokenizer has no token that begins a text: give a prompt"};
  TROUPE_ASSIGN(auto text, s.generate({ids.begin(), ids.end()}, config_.sample.tokens, config_.sample.temperature));
  const std::vector<uint32_t> all(text.begin(), text.end());
  made_text out{tokenizer->decode(all)};
  if (out.text.empty())
    out.missing =
        fmt::format("since the tokenizer has no text for the {} tokens that the model chose, the first being {}",
                    all.size(), all.front());
  return out;
}

}  // namespace troupe::apps
