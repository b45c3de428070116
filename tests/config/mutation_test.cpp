// Tests randomly damaged files: each is loaded or refused with errors, and none crashes the reader. TROUPE_MUTATIONS
// sets the number of files.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <random>

#include "config/explain.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(mutation)

using namespace troupe::config;

namespace {

const std::string yaml = smallest + R"(fp16: &half
  enabled: true
  loss_scale: 0
# a comment
bf16: {enabled: no}
scheduler:
  type: "WarmupLR"
  params: {warmup_num_steps: 5e1, warmup_type: 'log'}
data_types: *half
parameter_groups:
  - {match: "bias|norm", weight_decay: 0}
  - match: wte
    trainable: false
aio: [1, 2,
  {a: "\u00e9\n", b: |
    text
  }]
)";

const std::string json = R"({
  // a comment
  "model": {"model_type": "llama", "rope_parameters": {"rope_type": "default"}, "pad_token_id": null},
  data: {"sources": [{"text": "c\u00e9\"\\.txt", "weight": 2}, {"text": no quotes
    "text_key": 't'}]} /* another */
  "steps": 1e2, "train_batch_size": 16, "fp16": {"enabled": false, "loss_scale": -0.5},
  "optimizer": {"type": "Muon", "params": {"betas": [0.9, 0.99], "ns_steps": 3}},
  "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0, "cycle_max_lr": [0.1]}},
  "zero_optimization": {"stage": 2, "reduce_scatter": true, "offload_param": {"device": "none"},
    "cpu_offload": false, "offload_optimizer": {"device": "nvme", "nvme_path": "/disk", "buffer_count": 5, "ratio": 1.0},
    "zenflow": {"select_strategy": "step", "select_interval": 4}},
  "aio": {"block_size": 262144, "queue_depth": "auto", "single_submit": "true"}
})";

size_t mutations() {
  const char* given = std::getenv("TROUPE_MUTATIONS");
  return given == nullptr ? 1000 : std::strtoull(given, nullptr, 10);
}

void mutate(std::string& text, std::mt19937_64& random) {
  static const std::string likely = "{}[]:,-#&*!|>'\"%@`?\n \t/\\0e.~<";
  const size_t at = random() % (text.size() + 1);
  const char c = random() % 4 == 0 ? static_cast<char>(random() % 256) : likely[random() % likely.size()];
  switch (random() % 5) {
    case 0:
      text.insert(at, 1, c);
      break;
    case 1:
      if (at < text.size()) text[at] = c;
      break;
    case 2:
      text.erase(at, random() % 8);
      break;
    case 3:
      text.insert(at, text.substr(random() % (text.size() + 1), random() % 40));
      break;
    default:
      text.resize(at);
      break;
  }
}

/// Checks that `text` results in a configuration that can be explained, or in errors with text and position; returns 1
/// if it was refused.
size_t refused(const std::string& text, const std::string& name) {
  const auto l = load_text(text, name, "/base");
  if (l) {
    BOOST_TEST(!effective_yaml(*l).empty());
    return 0;
  }
  BOOST_TEST(!l.error().empty());
  for (const diagnostic& d : l.error()) {
    BOOST_TEST((!d.text.empty() && d.line >= 0 && d.column >= 0 && d.severity == diagnostic::error), text);
    BOOST_TEST(d.render().find('\n') == std::string::npos, text);
  }
  return 1;
}

void survives(const std::string& text, const std::string& name, uint64_t seed) {
  std::mt19937_64 random(seed);
  size_t count = 0;
  for (size_t i = 0; i < mutations(); ++i) {
    std::string broken = text;
    for (size_t n = 1 + random() % 4; n > 0; --n) mutate(broken, random);
    count += refused(broken, name);
  }
  BOOST_TEST(count > mutations() / 10);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_mutated_yaml_is_loaded_or_refused) { survives(yaml, "j.yaml", 1); }
BOOST_AUTO_TEST_CASE(a_mutated_small_yaml_is_loaded_or_refused) { survives(smallest, "j.yaml", 2); }
BOOST_AUTO_TEST_CASE(a_mutated_json_is_loaded_or_refused) { survives(json, "j.json", 3); }

BOOST_AUTO_TEST_SUITE_END()
