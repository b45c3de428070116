#include "data/chat/sample_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/chat/conversation.hpp"
#include "data/chat/rendering.hpp"
#include "data/formats/objects.hpp"

namespace troupe::data {
namespace {

core::result<chat_sample> sample_in(const nlohmann::ordered_json& row, const sample_reading& how) {
  if (how.form == core::sample_form::labelled) {
    TROUPE_ASSIGN(auto tokens, labelled_tokens_of(row, how.vocab_size));
    return sample_of(std::move(tokens));
  }
  TROUPE_ASSIGN(const auto talk, conversation_of(row, how.form, how.messages_key));
  TROUPE_ASSIGN(const auto text, render(*how.format, talk, how.loss_on));
  TROUPE_ASSIGN(auto out, sample_of(*how.format, text));
  const auto bad = std::ranges::find_if(out.tokens, [&](uint32_t t) { return t >= how.vocab_size; });
  if (bad != out.tokens.end())
    return core::refused(fmt::format("token {} lies outside the vocabulary of {}", *bad, how.vocab_size));
  return out;
}

}  // namespace

core::result<void> read_samples(source_kind kind, const core::source_file& file, const sample_reading& how,
                                uint64_t& bytes_left, const sample_visit& visit) {
  return read_objects(
      kind, file, columns_of(how.form, how.messages_key), bytes_left,
      [&](const nlohmann::ordered_json& row, const std::string& place, uint64_t byte) -> core::result<void> {
        auto made = sample_in(row, how);
        if (made && made->counted.empty())
          made = core::refused("none of its tokens counts: wanted an answer to learn from");
        if (!made) return core::fail(made.error().in(place));
        return visit(std::move(*made), place, byte);
      });
}

}  // namespace troupe::data
