// Opens what turns conversations into text and tokens: the chat templates of a tokenizer's folder, or one of a file's,
// and the tokenizer that finds special tokens in their texts. Owns which template a conversation has, and the variables
// that name special tokens; leaves rendering to rendering.hpp.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

class chat_template;

/// Value of data.chat_template for prompts and completions that follow each other without a template.
inline constexpr std::string_view joined_template = "joined";
/// Largest size in bytes of a file with a chat template.
inline constexpr uint64_t max_chat_template_bytes = uint64_t{4} << 20;

class chat_format {
 public:
  /// Opens the tokenizer at `place`, a path as for open_tokenizer(), and its templates. `wanted` is the path of a file
  /// with a template (its name ends in .jinja), the name of one of the folder's templates, joined_template, or empty:
  /// the folder's own. `date`, such as 2026-01-31, is the date that templates write; empty: none is chosen. Errors
  /// (bad_input): a text that is no date, those of the tokenizer and of the template's syntax; no template; no
  /// template of that name.
  static core::result<chat_format> open(const std::filesystem::path& place, const std::string& wanted,
                                        const std::string& date = {});

  /// Returns the template of conversations with or without tools; null for joined_template. As in transformers, the
  /// template named tool_use is that of conversations with tools, if the folder has one.
  [[nodiscard]] const chat_template* template_for(bool has_tools) const;
  /// Returns the variables of special tokens, such as bos_token; an object.
  [[nodiscard]] const nlohmann::ordered_json& token_names() const { return *token_names_; }
  [[nodiscard]] data::tokenizer& tokenizer() const { return *tokenizer_; }
  /// Returns the token that ends a completion without a template; nullopt: the tokenizer has none.
  [[nodiscard]] std::optional<uint32_t> end_of_text() const { return tokenizer_->end_of_text(); }
  /// True if a template may write the time of its use.
  [[nodiscard]] bool reads_time() const { return reads_time_; }
  /// Returns the date that templates write; empty: none is chosen.
  [[nodiscard]] const std::string& date() const { return date_; }
  /// Returns a digest of the templates' sources and of the date.
  [[nodiscard]] const std::string& digest() const { return digest_; }

 private:
  chat_format() = default;
  core::result<void> add_template(const std::string& name, std::string_view source);

  struct named_template {
    std::string name;
    std::shared_ptr<const chat_template> made;
  };
  std::shared_ptr<data::tokenizer> tokenizer_;
  std::shared_ptr<const nlohmann::ordered_json> token_names_;
  std::vector<named_template> templates_;  ///< the default one has the name `default`
  bool reads_time_ = false;
  std::string date_, digest_;
};

}  // namespace troupe::data
