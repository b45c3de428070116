// A checkpoint of ours as DeepSpeed's folders. tests/peer/deepspeed_resumes_ours.py names one of a real run in the
// environment and lets DeepSpeed go on from what is written here; otherwise the checkpoint is drawn at random.
#include <algorithm>
#include <cstdlib>

#include "checkpoint/commit.hpp"
#include "checkpoint/deepspeed_source.hpp"
#include "checkpoint/universal_writer.hpp"
#include "tests/checkpoint/random_source.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
using core::dtype;

namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

/// Biases and norms in a group of their own, as most recipes of AdamW have it.
std::vector<deepspeed_parameter_group> groups_by_rank(const tensor_source& s, const deepspeed_parameter_group& values) {
  auto matrices = values, others = values;
  for (const auto& t : s.tensors)
    if (t.kind == tensor_kind::master) (t.shape.size() < 2 ? others : matrices).parameters.push_back(t.name);
  std::vector<deepspeed_parameter_group> out;
  for (auto* group : {&matrices, &others})
    if (!group->parameters.empty()) out.push_back(std::move(*group));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(deepspeed_peer)

BOOST_AUTO_TEST_CASE(one_checkpoint_becomes_folders_of_every_stage_and_a_universal_one) {
  const scratch_folder at;
  const auto to = std::filesystem::path(from_environment("TROUPE_DEEPSPEED_TO", at / "deepspeed"));
  const auto type = core::float_dtype_from(from_environment("TROUPE_DEEPSPEED_TYPE", "fp32"));
  BOOST_REQUIRE(type.has_value());
  deepspeed_write_options o{.ranks = 2, .weight_type = *type, .tag = "ours"};
  tensor_source source;
  std::optional<random_source> drawn;
  if (const auto path = from_environment("TROUPE_DEEPSPEED_FROM", ""); !path.empty()) {
    const auto ours = open_checkpoint(real_files(), path);
    check_ok(ours);
    source = source_of(*ours);
    o.shared = {{"lm_head.weight", "transformer.wte.weight"}};
  } else {
    drawn.emplace(3, *type, at.path());
    source = drawn->source;
  }
  const auto number = [&](const char* name, const char* otherwise) {
    return std::stod(from_environment(name, otherwise));
  };
  o.groups = groups_by_rank(source, {.lr = number("TROUPE_DEEPSPEED_LR", "0.001"),
                                     .beta2 = number("TROUPE_DEEPSPEED_BETA2", "0.999"),
                                     .weight_decay = number("TROUPE_DEEPSPEED_WEIGHT_DECAY", "0.1")});
  uint64_t most = 0;
  for (o.stage = *type == dtype::f32 ? 0 : 1; o.stage <= 3; ++o.stage) {
    const auto root = to / ("stage" + std::to_string(o.stage));
    const auto written = write_deepspeed_folder(source, root, o);
    check_ok(written);
    most = std::max(most, written->bytes);
    BOOST_TEST(std::filesystem::exists(root / "latest"));
    const auto back = read_deepspeed_source(root);
    check_ok(back);
    BOOST_TEST(back->run.steps.value_or(0) == source.run.steps.value_or(1));
  }
  const auto universal = write_universal_folder(source, to / "universal/ours", o);
  check_ok(universal);
  BOOST_TEST(universal->bytes <= 2 * most);
  BOOST_TEST(std::filesystem::exists(to / "universal/latest_universal"));
}

BOOST_AUTO_TEST_SUITE_END()
