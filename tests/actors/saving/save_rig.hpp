// Owns the states of several ranks, filled with known values, and the writer lanes that save them; shared by tests of
// saves.
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/hands/writer_executor.hpp"
#include "actors/memory/state_store.hpp"
#include "actors/saving/save_job.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/source/scatter_read.hpp"
#include "plan/layout/saves.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/check_ok.hpp"

namespace troupe::actors {

/// Returns the expected value of element `i`: a number that differs between elements, parameters and parts.
inline float value_of(uint32_t parameter, uint32_t part, uint64_t i) {
  return static_cast<float>((i * 7 + parameter * 131 + part * 17 + 1) % 60'000);
}

/// The states of all ranks, filled with known values, and the lanes that save them.
struct save_rig {
  explicit save_rig(plan::plan_options options, const plan::shared_table& table, uint32_t salt = 0) : salt_(salt) {
    options.mode = plan::mode::save;
    options.saving.on = true;
    plans = plan::plans_of(table, options);
    auto list = std::make_shared<job::optimizer_groups>();
    list->groups.push_back({kernels::adamw_options{}, {}, 0});
    list->group_of.assign(table->parameters.size(), 0);
    groups = list;
    for (const auto& p : plans) {
      auto m = troupe::tests::check_ok(rank_memory::allocate(p, plan::pools_of(*p)));
      BOOST_REQUIRE((*m)->take_staging().has_value());
      fill(**m, *p);
      memory.push_back(*m);
    }
  }

  /// Begins a save as the leading process; `here` are the ranks of this process, and if it is empty, all ranks.
  core::result<std::shared_ptr<save_job>> begin(storage::file_system& files, uint64_t step, save_request request = {},
                                                const ranks_here& here = {}) const {
    request.root = root;
    checkpoint::run_state run;
    run.step = step;
    return save_job::begin(files, request, run, plans, groups, {}, here);
  }

  /// Does what `fault_of_run` does and checks that nothing went wrong.
  void run(const std::shared_ptr<save_job>& job, size_t last = SIZE_MAX, const ranks_here& here = {}) const {
    const std::string fault = fault_of_run(job, last, here);
    BOOST_REQUIRE_MESSAGE(fault.empty(), fault);
  }

  /// Executes the first `last` writer instructions of every rank in `here` (empty: all ranks). Then ends the run of
  /// each lane whose executor has asked to be woken, and aborts the other lanes. Returns what went wrong first, or an
  /// empty text. Several threads may call it at once, so it uses no macro of Boost.Test.
  std::string fault_of_run(const std::shared_ptr<save_job>& job, size_t last, const ranks_here& here) const {
    std::vector<std::unique_ptr<writer_executor>> lanes;
    std::vector<uint64_t> wakes(plans.size(), 0);
    step_order order;
    order.save = job;
    for (uint32_t r = 0; r < plans.size(); ++r) {
      lanes.emplace_back();
      if (!here.empty() && !here[r]) continue;
      lanes[r] = std::make_unique<writer_executor>(memory[r], std::make_unique<state_store>(*memory[r]));
      lanes[r]->attach([&wakes, r](std::chrono::nanoseconds, uint64_t) { ++wakes[r]; });
      lanes[r]->begin(context_of(plans[r], order));
      const auto& ids = plans[r]->lanes[static_cast<size_t>(plan::lane::writer)];
      for (size_t i = 0; i < std::min(last, ids.size()); ++i) {
        const auto did = lanes[r]->start(plans[r]->instructions[ids[i]]);
        if (!did) return fmt::format("rank {}, instruction {}: {}", r, i, did.error().text);
        if (*did != progress::done) return fmt::format("rank {}, instruction {} is not done", r, i);
      }
    }
    for (uint32_t r = 0; r < plans.size(); ++r) {
      if (lanes[r] == nullptr) continue;
      if (last == SIZE_MAX && wakes[r] != 1) return fmt::format("rank {} asked to be woken {} times", r, wakes[r]);
      if (wakes[r] == 0)
        lanes[r]->abort({core::error_kind::stopped, "given up"});
      else if (const auto did = lanes[r]->advance(0); !did)
        return fmt::format("rank {}: {}", r, did.error().text);
    }
    return {};
  }

  save_report save(storage::file_system& files, uint64_t step, const save_request& request = {}) const {
    auto job = begin(files, step, request);
    if (!job) return {.step = step, .folder = {}, .failure = job.error()};
    run(*job);
    return (*job)->wait();
  }

  /// Checks that the newest checkpoint contains every state that this object has filled in.
  void expect_in(storage::file_system& files, uint64_t step, bool frozen = true) const {
    const auto folder = troupe::tests::check_ok(checkpoint::open_checkpoint(files, root));
    BOOST_TEST(folder->content.run.step == step);
    const auto source = checkpoint::source_of(*folder);
    size_t tensors = 0;
    for (uint32_t q = 0; q < plans[0]->table().parameters.size(); ++q) {
      const bool trains = plans[0]->layout->trains(q);
      if (!trains && !frozen) continue;
      const std::pair<uint32_t, const char*> parts[] = {
          {plan::saved_weights, ""}, {plan::saved_moment, "exp_avg"}, {plan::saved_moment + 1, "exp_avg_sq"}};
      for (const auto& [part, moment] : std::span(parts).first(trains ? 3 : 1)) {
        ++tensors;
        const auto kind = !trains                       ? formats::tensor_kind::frozen
                          : part == plan::saved_weights ? formats::tensor_kind::master
                                                        : formats::tensor_kind::moment;
        expect_tensor(files, source, q, trains ? part : plan::saved_frozen, kind, moment);
      }
    }
    BOOST_TEST(source.tensors.size() == tensors);
  }

  std::filesystem::path root = "/checkpoints";
  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  std::vector<std::shared_ptr<rank_memory>> memory;
  std::shared_ptr<const job::optimizer_groups> groups;

 private:
  void fill(const rank_memory& m, const plan::rank_plan& p) const {
    const plan::rank_slices mine(*p.layout, p.rank);
    const plan::saved_slices saved(mine);
    for (uint32_t q = 0; q < p.table().parameters.size(); ++q) {
      const plan::slice held = saved.of(q);
      std::vector<uint32_t> parts{p.layout->trains(q) ? plan::saved_weights : plan::saved_frozen};
      if (p.layout->trains(q)) parts.insert(parts.end(), {plan::saved_moment, plan::saved_moment + 1});
      for (uint32_t part : parts) {
        auto* to = reinterpret_cast<float*>(state_store(m).in_memory(q, part_of({q, part, held, 0}), held));
        for (uint64_t i = 0; i < held.count; ++i) to[i] = value_of(q, part + salt_, held.first + i);
      }
    }
  }
  void expect_tensor(storage::file_system& files, const formats::tensor_source& source, uint32_t q, uint32_t part,
                     formats::tensor_kind kind, const char* moment) const {
    const auto& parameter = plans[0]->table().parameters[q];
    const auto* tensor = formats::find_tensor(source, parameter.name, kind, moment);
    BOOST_REQUIRE_MESSAGE(tensor != nullptr, parameter.name);
    BOOST_TEST(tensor->shape == parameter.shape);
    std::vector<float> got(parameter.numel());
    const std::vector<formats::scattered_tensor> wanted{
        {tensor, {{0, got.size(), core::dtype::f32, reinterpret_cast<std::byte*>(got.data())}}}};
    const auto did = troupe::tests::check_ok(formats::read_scattered(files, source, wanted));
    BOOST_TEST(did->verified_bytes == did->bytes);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < got.size(); ++i) wrong += got[i] != value_of(q, part + salt_, i);
    BOOST_TEST(wrong == 0U, parameter.name << ", part " << part);
  }

  uint32_t salt_;
};

inline plan::shared_table some_table(bool with_frozen = false) {
  plan::table_writer w;
  for (uint64_t n : {3000U, 40U, 9000U, 1U, 5000U}) w.unit({{w.parameter(n)}});
  if (with_frozen) w.freeze({1, 4});
  return w.done();
}

inline plan::plan_options with_staging(uint32_t ranks, uint32_t stage, uint64_t staging) {
  auto o = plan::small_options(ranks, stage);
  o.saving.staging_bytes = staging;
  return o;
}

}  // namespace troupe::actors
