// Defines entry points of libFuzzer for files that a pipeline's run reads: a profile of units, a table of actions. Each
// file is accepted, or refused with its line; an accepted file is written again, and the written text must read as
// equal values.
#include <string>
#include <string_view>

#include "plan/choose/profile.hpp"
#include "plan/schedule/text.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace troupe;
using namespace troupe::tests;

const std::string file_name = "input.csv";

std::string_view text_of(bytes input) { return {reinterpret_cast<const char*>(input.data()), input.size()}; }

/// Checks that a refusal begins with the file and a line, counted from 1.
void wanted_place(const core::error& e) {
  wanted(e.text.starts_with(file_name + ":"));
  const char first = e.text.size() > file_name.size() + 1 ? e.text[file_name.size() + 1] : '0';
  wanted(first >= '1' && first <= '9');
}

[[maybe_unused]] void fuzz_profile(bytes input) {
  const auto read = plan::read_profile(text_of(input), file_name);
  if (!read) return wanted_place(read.error());
  const std::string text = plan::write_profile(*read);
  const auto again = plan::read_profile(text, file_name);
  wanted(again.has_value() && again->units.size() == read->units.size() && plan::write_profile(*again) == text);
}

[[maybe_unused]] void fuzz_schedule(bytes input) {
  if (const auto sized = plan::read_table(text_of(input), file_name, {2, 4, 8}); !sized) wanted_place(sized.error());
  const auto read = plan::read_table(text_of(input), file_name);
  if (!read) return wanted_place(read.error());
  const auto again = plan::read_table(plan::write_table(*read), file_name);
  wanted(again.has_value() && *again == *read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TROUPE_FUZZED(std::as_bytes(std::span(data, size)));
  return 0;
}
