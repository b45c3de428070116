// Defines an entry point of libFuzzer for chat templates: each is accepted or refused, and an accepted one renders a
// conversation or fails, within its limits.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "data/templates/allowance.hpp"
#include "data/templates/chat_template.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace troupe;
using namespace troupe::tests;

const nlohmann::ordered_json& conversation() {
  static const auto all = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Wie geht's, \"ü\"?\n"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "abc123XYZ", "type": "function",
                  "function": {"name": "add", "arguments": {"x": 1, "y": [2.5, true, "z"]}}}]},
                 {"role": "tool", "content": "3.5", "name": "add"},
                 {"role": "assistant", "content": "<think>a</think>b"}],
    "tools": [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object",
               "properties": {"x": {"type": "integer"}, "y": {"type": "array"}}, "required": ["x"]}}}],
    "documents": null, "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",
    "strftime_now": "2026-03-07 09:05:00"})");
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto made = data::chat_template::parse("t", {reinterpret_cast<const char*>(bytes), size});
  if (!made) return 0;
  const auto got = made->render(conversation());
  if (!got) return 0;
  wanted(got->text.size() <= data::templates::largest_text);
  wanted(made->marks_generation() || got->generated.empty());
  size_t end = 0;
  for (const auto& one : got->generated) {
    wanted(end <= one.begin && one.begin <= one.end && one.end <= got->text.size());
    end = one.end;
  }
  return 0;
}
