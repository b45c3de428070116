// Checks that a checkpoint does not depend on how the job was sharded: saved with any pipeline, grouping, ZeRO stage or
// memory tier, it loads with any other with the same tensors bit for bit, and continues with the same losses if the
// data degree and the order of sums are equal.
#include "tests/crash/wanted_cases.hpp"
#include "tests/parity/cuts.hpp"

BOOST_AUTO_TEST_SUITE(elastic)

using namespace troupe;
using namespace troupe::tests;

namespace {

std::vector<saved_cut> save_all(const small_job& job, const std::vector<cut>& all, const settings& common) {
  std::vector<saved_cut> out;
  for (const auto& c : all) BOOST_TEST_CONTEXT(c.name) out.push_back(train_and_save(job, c, common));
  return out;
}

/// The GPT-2 job and a checkpoint of each of its cuts, which two tests read.
struct saved_gpt2 {
  small_job job{gpt2};
  std::vector<cut> all = cuts(job);
  std::vector<saved_cut> saved = save_all(job, all, {});
};
const saved_gpt2& saved_once() {
  static const saved_gpt2 one;
  return one;
}

/// Checks that every cut loads checkpoints of other cuts: that of the next cut when it is opened, and another one while
/// it is open, at a distance in the list that differs from cut to cut. `make soak` tests every pair.
void check_elastic(const small_job& job, const std::vector<cut>& all, const std::vector<saved_cut>& saved,
                   const settings& common, double tolerance) {
  for (size_t to = 0; to < all.size(); ++to) {
    const size_t neighbour = (to + 1) % all.size();
    const auto s = open(job, all[to].all() + common, saved[neighbour].folder);
    check_folder(saved[to], *s);
    const size_t others = all.size() - 1, drawn = std::min<size_t>(others, wanted_cases("TROUPE_CASES", 1));
    for (size_t i = 0; i <= drawn; ++i) {
      const size_t k = i == 0 ? 0 : 1 + (to + (i - 1) * std::max<size_t>(1, others / drawn)) % others;
      const size_t from = (neighbour + k) % all.size();
      BOOST_TEST_CONTEXT("saved: " << all[from].name << ", loaded: " << all[to].name) {
        if (k > 0) (void)sound(s->load(saved[from].folder, {.pipeline_loading_checkpoint = k % 2 == 0}));
        check_equal(tensors_of(*s), saved[from].tensors);
        if (k == 0) check_same_files(sound(s->save({.root = job.folder() / "again"})), saved[from].folder);
        const auto got = losses_of(*s, after);
        for (uint64_t step = 0; step < after; ++step) {
          BOOST_TEST_INFO_SCOPE("step " << step);
          BOOST_TEST(std::abs(got[step] - saved[from].next[step]) < tolerance);
          if (all[to].adds_alike(all[from])) BOOST_TEST(got[step] == saved[from].next[step]);
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_cut_loads_the_checkpoint_of_every_other_with_a_tied_embedding) {
  const auto& [job, all, saved] = saved_once();
  check_elastic(job, all, saved, {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(ranks_that_hold_the_same_elements_share_their_writing) {
  const auto& [job, all, saved] = saved_once();
  for (size_t i = 0; i < all.size(); ++i) BOOST_TEST_CONTEXT(all[i].name) {
      const auto source = sound(checkpoint::open_source(saved[i].folder));
      std::vector<uint64_t> written(source.files.size());  // number of elements in each rank's file
      for (const auto& t : source.tensors)
        for (const auto& piece : t.pieces) written[piece.file] += piece.count;
      BOOST_TEST(std::ranges::max(written) < 8 * std::ranges::min(written));
    }
}

BOOST_AUTO_TEST_CASE(every_cut_loads_the_checkpoint_of_every_other_in_bf16_with_a_head_of_its_own) {
  const small_job job(llama);
  auto all = cuts(job);
  all.pop_back();  // the last cut requires a tied weight
  const settings common = {"bf16.enabled=true"};
  check_elastic(job, all, save_all(job, all, common), common, 2e-2);
}

BOOST_AUTO_TEST_CASE(every_tensor_cut_loads_the_checkpoint_of_every_other_with_a_tied_embedding) {
  const small_job job(gpt2);
  const auto all = tensor_cuts(job);
  check_elastic(job, all, save_all(job, all, {}), {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(tensor_cuts_load_the_checkpoints_of_others_in_bf16_with_a_head_of_its_own) {
  const small_job job(llama);
  auto all = tensor_cuts(job);
  std::erase_if(all, [](const cut& c) {
    const auto names = {"uncut",    "tensor 2, stage 3", "sequence 2 x tensor 2",
                        "tensor 4", "V x tensor 2",      "tensor 3 in files"};
    return std::ranges::find(names, c.name) == names.end();
  });
  const settings common = {"bf16.enabled=true"};
  check_elastic(job, all, save_all(job, all, common), common, 2e-2);
}

BOOST_AUTO_TEST_CASE(tensor_cuts_load_the_checkpoints_of_others_of_a_model_with_norms_behind_its_blocks) {
  const small_job job(gemma2);
  auto all = tensor_cuts(job);
  std::erase_if(all, [](const cut& c) {
    const auto names = {"uncut", "tensor 2, stage 3", "tensor 3, stage 3", "sequence 2 x tensor 2", "V x tensor 2"};
    return std::ranges::find(names, c.name) == names.end();
  });
  check_elastic(job, all, save_all(job, all, {}), {}, 1e-5);
}

BOOST_AUTO_TEST_CASE(tensor_cuts_load_the_checkpoints_of_others_with_the_moments_of_whole_matrices) {
  const small_job job(llama);
  auto all = tensor_cuts(job);
  std::erase_if(all, [](const cut& c) {
    const auto names = {"uncut", "tensor 2, stage 3", "tensor 3, stage 3", "tensor 4", "V x tensor 2"};
    return std::ranges::find(names, c.name) == names.end();
  });
  const settings common = {"optimizer.type=Muon", "optimizer.params.lr=0.001"};
  check_elastic(job, all, save_all(job, all, common), common, 1e-5);
}

BOOST_AUTO_TEST_SUITE_END()
