// Tests checkpoints whose tensors are masked and cut when they are read, and are then written in Troupe's own format.
#include "checkpoint/convert/cut_source.hpp"

#include "checkpoint/commit/commit.hpp"
#include "checkpoint/convert/native_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(cut_source)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

/// A folder in which element (r, c) of `matrix` (5, 7) is 100 r + c, and element r of `vector` (5) is 1000 + r.
struct weights {
  scratch_folder folder;
  std::vector<float> matrix, vector;
  std::shared_ptr<const tensor_source> source;

  weights() {
    for (int r = 0; r < 5; ++r) {
      vector.push_back(float(1000 + r));
      for (int c = 0; c < 7; ++c) matrix.push_back(float(100 * r + c));
    }
    const std::vector<tensor_to_write> all{{"matrix", core::dtype::f32, {5, 7}, std::as_bytes(std::span(matrix))},
                                           {"vector", core::dtype::f32, {5}, std::as_bytes(std::span(vector))}};
    check_ok(write_weights_folder(folder / "model", all));
    auto opened = check_ok(open_source(folder / "model"));
    source = std::make_shared<const tensor_source>(std::move(*opened));
  }
};

std::vector<float> values_of(const tensor_source& s, const std::string& name) {
  for (const auto& t : s.tensors) {
    if (t.name != name) continue;
    std::vector<float> out(core::numel_of(t.shape));
    check_ok(source_reader(s).read(t, 0, out.size(), std::as_writable_bytes(std::span(out))));
    return out;
  }
  BOOST_FAIL("no tensor " << name);
  return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(changes_come_first_then_masks_then_cuts) {
  const weights w;
  source_cuts cuts;
  auto& cut = cuts["matrix"];
  cut.change = [](core::dtype, std::span<std::byte> whole) {
    for (auto* x = reinterpret_cast<float*>(whole.data()); x != reinterpret_cast<float*>(whole.data()) + 35; ++x)
      *x += 0.5F;
  };
  cut.mask.assign(5, 0xFF);
  cut.mask[0] = 0xFE;  // clears the mask bit of element (0, 0)
  cut.mask[3] = 0xFD;  // clears the mask bit of element 25, which is (3, 4)
  cut.rows = {0, 3};
  cut.columns = {0, 2, 4};
  cuts["vector"].rows = {0, 3};
  const auto s = check_ok(checkpoint::cut_source(w.source, cuts));
  BOOST_TEST((values_of(*s, "matrix") == std::vector<float>{0, 2.5F, 4.5F, 300.5F, 302.5F, 0}));
  BOOST_TEST((values_of(*s, "vector") == std::vector<float>{1000, 1003}));
  BOOST_TEST((values_of(*w.source, "matrix") == w.matrix));
}

BOOST_AUTO_TEST_CASE(what_is_written_as_a_checkpoint_of_ours_is_read_back_and_what_is_dropped_is_gone) {
  const weights w;
  source_cuts cuts;
  cuts["matrix"].rows = {1, 4};
  cuts["vector"].drops = true;
  auto s = check_ok(checkpoint::cut_source(w.source, cuts));
  s->run.steps = 12;
  s->run.config = "steps: 20\n";
  const auto written = check_ok(export_native(*s, w.folder / "out"));
  BOOST_TEST(written->folder.filename() == step_folder_name(12));
  const auto again = check_ok(open_source(w.folder / "out"));
  BOOST_TEST(again->format == "troupe");
  BOOST_TEST(again->run.steps.value() == 12U);
  BOOST_TEST(again->run.config == "steps: 20\n");
  BOOST_TEST(!again->run.seed.has_value());  // the source does not contain the seed
  BOOST_TEST_REQUIRE(again->tensors.size() == 1U);
  BOOST_TEST((again->tensors[0].shape == std::vector<int64_t>{2, 7}));
  const auto got = values_of(*again, "matrix");
  BOOST_TEST((std::vector(got.begin(), got.begin() + 7) == std::vector(w.matrix.begin() + 7, w.matrix.begin() + 14)));
  BOOST_TEST((std::vector(got.begin() + 7, got.end()) == std::vector(w.matrix.begin() + 28, w.matrix.end())));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_ours_has_the_whole_state_of_the_run) {
  const weights w;
  auto s = *w.source;
  s.run = {.steps = 12,
           .applied_updates = 11,
           .samples = 95,
           .samples_per_step = 8,
           .seed = 7,
           .loss_scale = loss_scale_record{1024, 12, 3, 2},
           .schedule_position = 10,
           .config = "steps: 20\n",
           .model = "{}",
           .client_state = R"({"a": 1})",
           .masks = {{"matrix", "row_pruning", 8, {0x0F}, {}}},
           .teacher = teacher_record{"teacher", {1, 2}},
           .input_ranges = {{"layer", -1.5F, 2}},
           .data = data_record{3, 0.25, "tokens", {}},
           .left_out = {{2, 3, true, {{8, 24}}}},
           .recent_losses = {3.5, 2.5},
           .group_changes = {{"rest", 0.5, std::nullopt}}};
  check_ok(export_native(s, w.folder / "whole"));
  const auto again = open_source(w.folder / "whole");
  check_ok(again);
  const auto& r = again->run;
  BOOST_TEST((r.steps == s.run.steps && r.applied_updates == s.run.applied_updates && r.samples == s.run.samples));
  BOOST_TEST((r.samples_per_step == s.run.samples_per_step && r.seed == s.run.seed));
  BOOST_TEST((r.loss_scale == s.run.loss_scale && r.schedule_position == s.run.schedule_position));
  BOOST_TEST((r.config == s.run.config && r.model == s.run.model && r.client_state == s.run.client_state));
  BOOST_TEST((r.masks == s.run.masks && r.teacher == s.run.teacher && r.input_ranges == s.run.input_ranges));
  BOOST_TEST((r.data == s.run.data && r.left_out == s.run.left_out && r.recent_losses == s.run.recent_losses));
  BOOST_TEST((r.group_changes == s.run.group_changes));
}

BOOST_AUTO_TEST_CASE(cuts_that_do_not_fit_are_refused_with_the_tensor) {
  const weights w;
  const auto refused = [&](const std::string& name, source_cut cut) {
    source_cuts cuts;
    cuts[name] = std::move(cut);
    const auto s = checkpoint::cut_source(w.source, std::move(cuts));
    return s ? std::string("taken") : s.error().text;
  };
  BOOST_TEST(refused("none", {}).find("has no tensor 'none'") != std::string::npos);
  source_cut mask, rows, columns;
  mask.mask = {1};
  rows.rows = {5};
  columns.columns = {0};
  BOOST_TEST(refused("matrix", mask).find("wanted a mask of 35 elements, got one of 1 bytes") != std::string::npos);
  BOOST_TEST(refused("matrix", rows).find("wanted indices within its dimension 0") != std::string::npos);
  BOOST_TEST(refused("vector", columns).find("wanted indices within its dimension 1") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
