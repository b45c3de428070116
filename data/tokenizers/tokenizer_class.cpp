#include "data/tokenizers/tokenizer_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/json_text.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {
namespace {

using core::error_kind;
using core::fail;

/// Classes that work as GPT-2's, without a final "Fast". The general classes follow tokenizer.json, which is checked
/// separately.
constexpr std::string_view as_gpt2[] = {
    "GPT2Tokenizer",   "RobertaTokenizer",    "BartTokenizer",    "LongformerTokenizer", "LEDTokenizer",
    "MvpTokenizer",    "BlenderbotTokenizer", "OPTTokenizer",     "DebertaTokenizer",    "CodeGenTokenizer",
    "GPTNeoTokenizer", "GPTNeoXTokenizer",    "WhisperTokenizer", "PreTrainedTokenizer", "TokenizersBackend"};

}  // namespace

core::result<void> check_tokenizer_class(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer_config.json";
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return {};
  TROUPE_ASSIGN(const auto text, core::read_file(path, max_tokenizer_bytes));
  const auto parsed = core::parse_json(text, max_tokenizer_json_depth);
  if (!parsed || !parsed->is_object())
    return fail(error_kind::bad_input, fmt::format("'{}': wanted one JSON object, got {}", path.string(),
                                                   parsed ? parsed->type_name() : parsed.error().why));
  const auto space = parsed->value("add_prefix_space", nlohmann::json());
  if (space == true)
    return fail(
        error_kind::bad_input,
        fmt::format("'{}': add_prefix_space: wanted false, since a space before the text is not supported, got true",
                    path.string()));
  const auto named = parsed->value("tokenizer_class", nlohmann::json());
  if (named.is_null()) return {};
  if (!named.is_string())
    return fail(error_kind::bad_input,
                fmt::format("'{}': tokenizer_class: wanted a name, got {}", path.string(), named.type_name()));
  const std::string whole = named.get<std::string>();
  std::string_view name = whole;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (std::ranges::find(as_gpt2, name) != std::end(as_gpt2)) return {};
  return fail(error_kind::bad_input,
              fmt::format("'{}': tokenizer_class: wanted one that splits words like GPT-2's, got {}, which is not "
                          "supported: its texts would become different tokens",
                          path.string(), core::shown(whole)));
}

}  // namespace troupe::data
