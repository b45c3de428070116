// How the rows of a source become samples of training: their form, the tokens whose loss counts, how samples are
// packed, and the treatment of samples that are longer than the window. Owns the names in a configuration; leaves
// reading rows to data/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::core {

/// Form of the rows of a source. text: a document each; chat: a conversation, as OpenAI's `messages` or ShareGPT's
/// `conversations`; instruct: a prompt and its answer; labelled: tokens with their labels.
enum class sample_form : uint8_t { text, chat, instruct, labelled };
/// Names of the forms in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 4> sample_form_names{"text", "chat", "instruct", "labelled"};

/// Tokens of a conversation whose loss counts: those of the assistant's turns, all of them, or those of the assistant's
/// last turn.
enum class loss_part : uint8_t { assistant, all, last };
/// Names of the parts in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> loss_part_names{"assistant", "all", "last"};

/// Treatment of a sample that is longer than the window: it is an error, is left out, or is cut to the window's length.
enum class long_sample : uint8_t { refuse, drop, cut };
/// Names of the treatments in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> long_sample_names{"refuse", "drop", "cut"};

/// How samples become rows of one length: as many as fit into a row, or one in each.
enum class sample_packing : uint8_t { best_fit, none };
/// Names of the ways in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> sample_packing_names{"best_fit", "none"};

/// Return the name in a configuration.
constexpr std::string_view name_of(sample_form f) { return sample_form_names[static_cast<size_t>(f)]; }
constexpr std::string_view name_of(loss_part p) { return loss_part_names[static_cast<size_t>(p)]; }
constexpr std::string_view name_of(long_sample l) { return long_sample_names[static_cast<size_t>(l)]; }
constexpr std::string_view name_of(sample_packing p) { return sample_packing_names[static_cast<size_t>(p)]; }

/// Returns the form with exactly this name; nullopt if there is none.
constexpr std::optional<sample_form> sample_form_from(std::string_view name) {
  const auto at = std::ranges::find(sample_form_names, name);
  if (at == sample_form_names.end()) return std::nullopt;
  return static_cast<sample_form>(at - sample_form_names.begin());
}
/// Returns the part with exactly this name; nullopt if there is none.
constexpr std::optional<loss_part> loss_part_from(std::string_view name) {
  const auto at = std::ranges::find(loss_part_names, name);
  if (at == loss_part_names.end()) return std::nullopt;
  return static_cast<loss_part>(at - loss_part_names.begin());
}
/// Returns the treatment with exactly this name; nullopt if there is none.
constexpr std::optional<long_sample> long_sample_from(std::string_view name) {
  const auto at = std::ranges::find(long_sample_names, name);
  if (at == long_sample_names.end()) return std::nullopt;
  return static_cast<long_sample>(at - long_sample_names.begin());
}
/// Returns the way with exactly this name; nullopt if there is none.
constexpr std::optional<sample_packing> sample_packing_from(std::string_view name) {
  const auto at = std::ranges::find(sample_packing_names, name);
  if (at == sample_packing_names.end()) return std::nullopt;
  return static_cast<sample_packing>(at - sample_packing_names.begin());
}

}  // namespace troupe::core
