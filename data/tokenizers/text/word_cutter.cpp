// Implements the word cutter with a pattern that PCRE2 compiles once per cutter, to machine code if possible.
#include "data/tokenizers/text/word_cutter.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace troupe::data {
namespace {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

tl::unexpected<core::error> no_word(size_t at, int code) {
  return core::fail(core::error_kind::limit,
                    fmt::format("cannot cut the text into words at byte {}: {}", at, message_of(code)));
}

}  // namespace

struct word_cutter::parts {
  std::unique_ptr<pcre2_code, freed_by<pcre2_code_free>> code;
  std::unique_ptr<pcre2_match_data, freed_by<pcre2_match_data_free>> match;
  std::unique_ptr<pcre2_match_context, freed_by<pcre2_match_context_free>> context;
  bool machine_code = false;
};

word_cutter::word_cutter(std::unique_ptr<parts> p) : parts_(std::move(p)) {}
word_cutter::word_cutter(word_cutter&&) noexcept = default;
word_cutter& word_cutter::operator=(word_cutter&&) noexcept = default;
word_cutter::~word_cutter() = default;

bool word_cutter::compiled_to_machine_code() const { return parts_->machine_code; }

core::result<word_cutter> word_cutter::make(word_pattern words) {
  const std::string pattern = expression_of(words);
  auto p = std::make_unique<parts>();
  int code = 0;
  PCRE2_SIZE where = 0;
  p->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_ANCHORED,
                              &code, &where, nullptr));
  if (!p->code)
    return core::fail(core::error_kind::bug,
                      fmt::format("PCRE2 refuses the pattern of words at {}: {}", where, message_of(code)));
  p->machine_code = pcre2_jit_compile(p->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  p->match.reset(pcre2_match_data_create(1, nullptr));
  p->context.reset(pcre2_match_context_create(nullptr));
  if (!p->match || !p->context) return core::fail(core::error_kind::limit, "no memory to cut words");
  pcre2_set_match_limit(p->context.get(), word_match_limit);
  pcre2_set_depth_limit(p->context.get(), word_depth_limit);
  pcre2_set_heap_limit(p->context.get(), word_heap_limit_kib);
  return word_cutter(std::move(p));
}

int word_cutter::match(std::string_view text, size_t at, uint32_t options) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  auto& p = *parts_;
  if (p.machine_code)
    return pcre2_jit_match(p.code.get(), subject, text.size(), at, options, p.match.get(), p.context.get());
  return pcre2_match(p.code.get(), subject, text.size(), at, options | PCRE2_NO_UTF_CHECK, p.match.get(),
                     p.context.get());
}

core::result<size_t> word_cutter::next(std::string_view text, size_t at) {
  if (const int rc = match(text, at, 0); rc < 0) return no_word(at, rc);
  return pcre2_get_ovector_pointer(parts_->match.get())[1] - at;
}

core::result<std::optional<size_t>> word_cutter::next_whatever_follows(std::string_view text, size_t at) {
  const int rc = match(text, at, PCRE2_PARTIAL_HARD);
  if (rc == PCRE2_ERROR_PARTIAL) return std::nullopt;
  if (rc < 0) return no_word(at, rc);
  return std::optional<size_t>(pcre2_get_ovector_pointer(parts_->match.get())[1] - at);
}

}  // namespace troupe::data
