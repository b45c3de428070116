// Tests states of whole runs that are read and changed by name: the values do not depend on the ZeRO stage and the
// tier, and training continues from the changed values.
#include "actors/session/state_access.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "actors/saving/save_request.hpp"
#include "storage/swap/swap_space.hpp"
#include "tests/check_ok.hpp"
#include "tests/small_job.hpp"

BOOST_AUTO_TEST_SUITE(state_access)

using namespace troupe;
using namespace troupe::tests;
using actors::named_values;

namespace {

struct way_to_run {
  std::string name;
  settings set;
};

std::vector<way_to_run> ways(const scratch_folder& folder) {
  const std::string nvme = "device: nvme, nvme_path: " + (folder.path() / "swap").string();
  const settings optimizer{"zero_optimization.offload_optimizer={" + nvme + "}"};
  // Returns settings in which `kept` elements of the slices stay in memory and the others are in the file.
  const auto everything = [&](int kept) {
    return optimizer + settings{fmt::format("zero_optimization.offload_param={{{}, max_in_cpu: {}}}", nvme, kept)};
  };
  const auto stage = [](int s) {
    return settings{fmt::format("zero_optimization.stage={}", s), "zero_optimization.sub_group_size=4000",
                    "zero_optimization.reduce_bucket_size=9000", "zero_optimization.stage3_prefetch_bucket_size=9000",
                    "zero_optimization.stage3_param_persistence_threshold=40"};
  };
  return {{"stage 0", stage(0)},
          {"stage 1", stage(1)},
          {"stage 2", stage(2)},
          {"stage 3", stage(3)},
          {"stage 1, optimizer in files", stage(1) + optimizer},
          {"stage 2, optimizer in files", stage(2) + optimizer},
          {"stage 3, optimizer in files", stage(3) + optimizer},
          {"stage 3, everything in files and memory", stage(3) + everything(1'000'000'000)},
          {"stage 3, some slices in memory too", stage(3) + everything(20'000)},
          {"stage 3, everything in files", stage(3) + everything(0) + settings{"cluster.swap_gradients=true"}}};
}

const std::vector<way_to_run> precisions = {{"fp32", {}}, {"bf16", {"bf16.enabled=true"}}};
const settings two_ranks{"parallel.data=2", "gradient_order=per_step"};

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string some_frozen = "parameter_groups: [{match: 'wte\\.', trainable: false}]\n";

template <class T>
T sound(core::result<T> x) {
  if (!x) throw std::runtime_error(x.error().text);
  return std::move(*x);
}
void sound(core::result<void> x) {
  if (!x) throw std::runtime_error(x.error().text);
}

std::vector<float> changed(std::vector<float> x, float by) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = x[i] * by + 0.001F * static_cast<float>(i % 7);
  return x;
}

/// Results of a run: the losses, then every state that can be read.
struct outcome {
  std::vector<double> losses;
  std::vector<named_values> all;
  void add(actors::session& s) {
    for (const auto& p : s.table().parameters) {
      all.push_back({p.name, sound(s.states().get_full_fp32_param(p.name))});
      for (const char* key : {"exp_avg", "exp_avg_sq"})
        all.push_back({p.name + " " + key, sound(s.states().get_full_optimizer_state(p.name, key))});
      all.push_back({p.name + " gradient", sound(s.states().get_full_grad(p.name))});
    }
  }
};

const std::string matrix = "transformer.h.2.mlp.c_fc.weight", vector = "transformer.h.4.ln_1.bias";

/// Runs two steps, changes states in every way, and runs two more.
outcome run(const small_job& job, const settings& set) {
  outcome out;
  auto s = job.open(set);
  for (int i = 0; i < 2; ++i) out.losses.push_back(step_of(*s).loss);
  out.add(*s);
  const auto states = s->states();
  sound(states.set_full_fp32_param(matrix, changed(sound(states.get_full_fp32_param(matrix)), 0.5F)));
  sound(states.set_full_optimizer_state(matrix, "exp_avg_sq",
                                        changed(sound(states.get_full_optimizer_state(matrix, "exp_avg_sq")), 2)));
  std::vector<named_values> several = sound(states.get_full_fp32_params(std::vector{vector, matrix}));
  for (auto& x : several) x.values = changed(x.values, 1.25F);
  sound(states.set_full_fp32_params(several));
  for (const auto& x : several) BOOST_TEST((sound(states.get_full_fp32_param(x.name)) == x.values));
  out.add(*s);
  for (int i = 0; i < 2; ++i) out.losses.push_back(step_of(*s).loss);
  out.add(*s);
  return out;
}

void expect_same(const outcome& a, const outcome& b) {
  BOOST_TEST((a.losses == b.losses));
  BOOST_REQUIRE(a.all.size() == b.all.size());
  for (size_t i = 0; i < a.all.size(); ++i) BOOST_TEST((a.all[i].values == b.all[i].values), a.all[i].name << " " << i);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_and_tier_has_the_same_states_and_trains_from_those_set) {
  const small_job job;
  for (const auto& precision : precisions) {
    std::optional<outcome> reference;
    for (const auto& way : ways(job.folder())) BOOST_TEST_CONTEXT(precision.name << ", " << way.name) {
        auto got = run(job, way.set + two_ranks + precision.set);
        if (reference)
          expect_same(*reference, got);
        else
          reference = std::move(got);
      }
  }
}

BOOST_AUTO_TEST_CASE(the_pieces_that_ranks_update_make_up_the_whole) {
  const small_job job;
  for (const auto& way : ways(job.folder())) BOOST_TEST_CONTEXT(way.name) {
      auto s = job.open(way.set + two_ranks + precisions[1].set);
      (void)step_of(*s);
      const auto states = s->states();
      const auto whole = sound(states.get_full_fp32_param(matrix));
      const auto gradient = sound(states.get_full_grad(matrix));
      uint64_t covered = 0;
      for (uint32_t rank = 0; rank < 2; ++rank) {
        BOOST_TEST_INFO_SCOPE("rank " << rank);
        const auto own = sound(states.local_slice(rank, matrix));
        const auto mine = sound(states.get_local_fp32_param(rank, matrix));
        BOOST_TEST(mine.size() == own.count);
        BOOST_TEST(std::equal(mine.begin(), mine.end(), whole.begin() + long(own.first)));
        const auto grad = sound(states.get_local_grad(rank, matrix));
        BOOST_TEST(std::equal(grad.begin(), grad.end(), gradient.begin() + long(own.first)));
        sound(states.set_local_fp32_param(rank, matrix, changed(mine, 2)));
        sound(states.set_local_optimizer_state(rank, matrix, "exp_avg", std::vector<float>(own.count, 0.25F)));
        covered += own.count;
        // At stage 0 both ranks own all elements, so the other rank must have the new values.
        if (own.count == whole.size()) {
          BOOST_TEST((sound(states.get_local_fp32_param(1 - rank, matrix)) == changed(mine, 2)));
          covered = whole.size();
          break;
        }
      }
      BOOST_TEST(covered == whole.size());
      const auto moments = sound(states.get_full_optimizer_state(matrix, "exp_avg"));
      BOOST_TEST((moments == std::vector<float>(whole.size(), 0.25F)));
    }
}

BOOST_AUTO_TEST_CASE(a_view_is_the_memory_of_its_rank_and_outlives_the_session) {
  const small_job job;
  const auto values_of = [](const actors::state_view& x) {
    BOOST_REQUIRE((x.type == core::dtype::f32));
    const auto* const first = reinterpret_cast<const float*>(x.data);
    return std::vector<float>(first, first + x.elements.count);
  };
  for (const auto& precision : precisions)
    for (const auto& way : ways(job.folder())) {
      BOOST_TEST_CONTEXT(precision.name << ", " << way.name) {
        auto s = job.open(way.set + two_ranks + precision.set);
        (void)step_of(*s);
        const bool is_in_file = way.name.find(", ") != std::string::npos;  // what follows the comma is in files
        for (uint32_t rank = 0; rank < 2; ++rank) {
          BOOST_TEST_INFO_SCOPE("rank " << rank);
          const auto moments = s->states().view_local_optimizer_state(rank, matrix, "exp_avg");
          const auto own = sound(s->states().local_slice(rank, matrix));
          if (is_in_file && own.count > 0) {
            check_failed(moments, error_kind::bad_input, "read a copy instead");
          }
          if (is_in_file) continue;
          const auto weights = sound(s->states().view_local_param(rank, matrix));
          const auto before = sound(s->states().get_local_fp32_param(rank, matrix));
          BOOST_TEST(weights.elements.first == own.first);
          BOOST_TEST(weights.elements.count == own.count);
          BOOST_TEST((values_of(weights) == before));
          (void)step_of(*s);
          const auto after = sound(s->states().get_local_fp32_param(rank, matrix));
          BOOST_TEST((before != after || own.count == 0));
          BOOST_TEST((values_of(weights) == after));
          BOOST_TEST((values_of(sound(core::result<actors::state_view>(moments))) ==
                      sound(s->states().get_local_optimizer_state(rank, matrix, "exp_avg"))));
        }
        if (is_in_file) continue;
        const auto kept = sound(s->states().view_local_param(0, matrix));
        const auto last = values_of(kept);
        s.reset();
        BOOST_TEST((values_of(kept) == last));
      }
    }
}

BOOST_AUTO_TEST_CASE(a_run_resumed_from_a_save_trains_like_the_changed_run) {
  const small_job job(tiny_gpt2 + some_frozen);
  const auto all = ways(job.folder());
  for (const size_t which : {size_t{2}, all.size() - 1}) BOOST_TEST_CONTEXT(all[which].name) {
      const auto set = all[which].set + two_ranks + precisions[1].set;
      std::vector<double> losses[4];
      actors::save_request request;
      request.root = job.folder().path() / fmt::format("saved{}", which);
      {
        auto s = job.open(set);
        (void)step_of(*s);
        const auto states = s->states();
        sound(states.set_full_fp32_param(matrix, changed(sound(states.get_full_fp32_param(matrix)), 0.5F)));
        sound(s->save_async(request));
        // The save contains the states before this change.
        sound(s->states().set_full_fp32_param(vector, changed(sound(s->states().get_full_fp32_param(vector)), 3)));
        sound(s->states().set_full_fp32_param(vector, std::vector<float>(32, 0.0F)));
        sound(s->wait_for_saves());
      }
      for (const int i : {0, 1, 2, 3}) {
        BOOST_TEST_INFO_SCOPE("i " << i);
        actors::session_options options;
        options.config = job.config(i % 2 == 0 ? set : all[0].set + two_ranks + precisions[1].set);
        options.resume = request.root;
        // The limit results in many batches, and in tensors that fill a batch alone.
        options.load.swap_batch_bytes = 10'000;
        options.load.load_from_fp32_weights = i < 2;
        auto s = sound(actors::session::open(std::move(options)));
        for (int k = 0; k < 2; ++k) losses[i].push_back(step_of(*s).loss);
        BOOST_TEST((sound(s->states().get_full_fp32_param(vector)) != std::vector<float>(32, 0.0F)));
      }
      BOOST_TEST((losses[0] == losses[1]));
      BOOST_TEST((losses[2] == losses[3]));
    }
}

BOOST_AUTO_TEST_CASE(exported_files_are_the_same_from_every_tier) {
  const small_job job(tiny_gpt2 + some_frozen);
  std::vector<std::string> wanted;
  for (const auto& way : ways(job.folder())) BOOST_TEST_CONTEXT(way.name) {
      auto s = job.open(way.set + two_ranks + precisions[1].set +
                        settings{"zero_optimization.stage3_gather_16bit_weights_on_model_save=true"});
      (void)step_of(*s);
      const auto folder = job.folder().path() / "written";
      sound(s->export_hugging_face(folder.string()));
      BOOST_TEST(sound(s->save_16bit_model(folder / "used.safetensors")));
      std::vector<std::string> got;
      for (const char* file : {"model.safetensors", "used.safetensors"}) got.push_back(content_of(folder / file));
      BOOST_TEST(got[0].size() > got[1].size());
      if (wanted.empty()) wanted = got;
      BOOST_TEST((got == wanted));
      std::filesystem::remove_all(folder);
    }
}

BOOST_AUTO_TEST_CASE(every_reader_finds_a_changed_byte_in_a_states_file) {
  const small_job job;
  auto s = job.open(ways(job.folder()).back().set + two_ranks);
  (void)step_of(*s);
  const auto path = job.folder().path() / "swap" / "troupe-swap" / "rank1.swap";
  const auto bytes = static_cast<long>(std::filesystem::file_size(path));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (long at = 5; at < bytes; at += long{storage::swap_page_bytes}) {
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
  }
  file.close();
  BOOST_REQUIRE(file.good());
  const auto names = [](const auto& x) {
    BOOST_REQUIRE(!x.has_value());
    BOOST_TEST((x.error().kind == core::error_kind::io));
    BOOST_TEST(x.error().text.find("rank1.swap: page at ") != std::string::npos, x.error().text);
  };
  names(s->save({.root = job.folder().path() / "saves"}));
  BOOST_TEST(!std::filesystem::exists(job.folder().path() / "saves" / "latest"));
  names(s->export_hugging_face((job.folder().path() / "out").string()));
  names(s->step());
}

BOOST_AUTO_TEST_CASE(unavailable_states_are_refused_with_the_reason) {
  const small_job job(tiny_gpt2 + some_frozen);
  auto s = job.open(settings{"zero_optimization.stage=3", "parallel.data=2"});
  const auto says = [](const auto& x, const std::string& what) {
    BOOST_REQUIRE(!x.has_value());
    BOOST_TEST((x.error().kind == core::error_kind::bad_input));
    BOOST_TEST(x.error().text.find(what) != std::string::npos, x.error().text);
  };
  const auto states = s->states();
  says(states.get_full_fp32_param("transformer.h.2.mlp.c_fc.wieght"), "as '" + matrix + "'");
  says(states.get_full_grad(matrix), "no step has been done yet");
  says(states.set_full_fp32_param(matrix, std::vector<float>(5)), "values, got 5");
  says(states.get_full_optimizer_state(matrix, "momentum"), "it has exp_avg, exp_avg_sq");
  says(states.get_full_optimizer_state("transformer.wte.weight", "exp_avg"), "it is frozen");
  says(states.get_local_fp32_param(2, matrix), "rank 2: wanted one of 0 to 1");
  const std::vector<named_values> several{{vector, std::vector<float>(32, 1)}, {matrix, std::vector<float>(1)}};
  const auto before = sound(states.get_full_fp32_param(vector));
  says(states.set_full_fp32_params(several), "got 1");
  BOOST_TEST((sound(states.get_full_fp32_param(vector)) == before));
  // A frozen parameter can also be set.
  const auto frozen = changed(sound(states.get_full_fp32_param("transformer.wte.weight")), 2);
  sound(states.set_full_fp32_param("transformer.wte.weight", frozen));
  BOOST_TEST((sound(states.get_full_fp32_param("transformer.wte.weight")) == frozen));
  (void)step_of(*s);
  BOOST_TEST((sound(s->states().get_full_fp32_param("transformer.wte.weight")) == frozen));
}

BOOST_AUTO_TEST_CASE(the_embedding_of_the_padding_token_begins_as_zero_however_the_states_are_cut) {
  const small_job job(tiny_llama);
  const std::string embedding = "model.embed_tokens.weight";
  for (const settings& set :
       {settings{}, settings{"parallel.data=2", "zero_optimization.stage=3"}, settings{"parallel.tensor=2"}}) {
    const auto values = [&](const settings& more) {
      const auto s = job.open(set + more);
      return sound(s->states().get_full_fp32_param(embedding));
    };
    const auto plain = values({}), padded = values({"model.pad_token_id=70"});
    const size_t width = plain.size() / 96;
    for (size_t i = 0; i < plain.size(); ++i)
      if (padded[i] != (i / width == 70 ? 0.0F : plain[i])) BOOST_FAIL("element " << i << " is " << padded[i]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
