// A checkpoint as the writer lanes of all ranks make it, on a file system that fails and loses power on demand.
#include "actors/hands/save_job.hpp"

#include <boost/test/unit_test.hpp>
#include <thread>

#include "actors/hands/writer_executor.hpp"
#include "actors/memory/state_store.hpp"
#include "checkpoint/source/scatter_read.hpp"
#include "plan/layout/saves.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/fakes/file_system.hpp"

using namespace troupe;
using namespace troupe::actors;
using checkpoint::fake_files;

namespace {

/// The expected value of element `i`: a number that differs between elements, parameters and parts.
float value_of(uint32_t parameter, uint32_t part, uint64_t i) {
  return static_cast<float>((i * 7 + parameter * 131 + part * 17 + 1) % 60'000);
}

/// The states of all ranks, full of known values, and the lanes that save them.
struct rig {
  explicit rig(plan::plan_options options, const plan::shared_table& table, uint32_t salt = 0) : salt_(salt) {
    options.mode = plan::mode::save;
    options.saving.on = true;
    plans = plan::plans_of(table, options);
    auto list = std::make_shared<job::optimizer_groups>();
    list->groups.push_back({kernels::adamw_options{}, {}, 0});
    list->group_of.assign(table->parameters.size(), 0);
    groups = list;
    for (const auto& p : plans) {
      auto m = rank_memory::allocate(p, plan::pools_of(*p));
      BOOST_REQUIRE(m.has_value());
      BOOST_REQUIRE((*m)->take_staging().has_value());
      fill(**m, *p);
      memory.push_back(*m);
    }
  }

  core::result<std::shared_ptr<save_job>> begin(fake_files& files, uint64_t step, save_request request = {}) const {
    request.root = "/checkpoints";
    checkpoint::run_state run;
    run.step = step;
    return save_job::begin(files, request, run, plans, groups);
  }

  /// Every lane does its instructions up to `last` of them, then the run ends, or is given up.
  void run(const std::shared_ptr<save_job>& job, size_t last = SIZE_MAX) const {
    std::vector<std::unique_ptr<writer_executor>> lanes;
    std::vector<uint64_t> wakes(plans.size(), 0);
    step_order order;
    order.save = job;
    for (uint32_t r = 0; r < plans.size(); ++r) {
      lanes.push_back(std::make_unique<writer_executor>(memory[r], std::make_unique<state_store>(*memory[r])));
      lanes[r]->attach([&wakes, r](std::chrono::nanoseconds, uint64_t) { ++wakes[r]; });
      lanes[r]->begin(context_of(plans[r], order));
      const auto& ids = plans[r]->lanes[static_cast<size_t>(plan::lane::writer)];
      for (size_t i = 0; i < std::min(last, ids.size()); ++i) {
        const auto did = lanes[r]->start(plans[r]->instructions[ids[i]]);
        BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
        BOOST_REQUIRE((*did == progress::done));
      }
    }
    for (uint32_t r = 0; r < plans.size(); ++r) {
      if (last == SIZE_MAX) BOOST_TEST(wakes[r] == 1U);
      if (wakes[r] > 0)
        BOOST_REQUIRE(lanes[r]->advance(0).has_value());
      else
        lanes[r]->abort({core::error_kind::stopped, "given up"});
    }
  }

  save_report save(fake_files& files, uint64_t step, const save_request& request = {}) const {
    auto job = begin(files, step, request);
    if (!job) return {.step = step, .folder = {}, .failure = job.error()};
    run(*job);
    return (*job)->wait();
  }

  /// Checks that every state of the newest checkpoint is as this rig has it.
  void expect_in(fake_files& files, uint64_t step, bool frozen = true) const {
    const auto folder = checkpoint::open_checkpoint(files, "/checkpoints");
    BOOST_REQUIRE_MESSAGE(folder.has_value(), (folder ? "" : folder.error().text));
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
        const auto kind = !trains                       ? checkpoint::tensor_kind::frozen
                          : part == plan::saved_weights ? checkpoint::tensor_kind::master
                                                        : checkpoint::tensor_kind::moment;
        expect_tensor(files, source, q, trains ? part : plan::saved_frozen, kind, moment);
      }
    }
    BOOST_TEST(source.tensors.size() == tensors);
  }

  std::vector<std::shared_ptr<const plan::rank_plan>> plans;
  std::vector<std::shared_ptr<rank_memory>> memory;
  std::shared_ptr<const job::optimizer_groups> groups;

 private:
  void fill(const rank_memory& m, const plan::rank_plan& p) const {
    for (uint32_t q = 0; q < p.table().parameters.size(); ++q) {
      const plan::slice held = plan::saved_slice(*p.layout, q, p.rank);
      std::vector<uint32_t> parts{p.layout->trains(q) ? plan::saved_weights : plan::saved_frozen};
      if (p.layout->trains(q)) parts.insert(parts.end(), {plan::saved_moment, plan::saved_moment + 1});
      for (uint32_t part : parts) {
        auto* to = reinterpret_cast<float*>(state_store(m).in_memory(q, part_of({q, part, held, 0}), held));
        for (uint64_t i = 0; i < held.count; ++i) to[i] = value_of(q, part + salt_, held.first + i);
      }
    }
  }
  void expect_tensor(fake_files& files, const checkpoint::tensor_source& source, uint32_t q, uint32_t part,
                     checkpoint::tensor_kind kind, const char* moment) const {
    const auto& parameter = plans[0]->table().parameters[q];
    const auto* tensor = checkpoint::find_tensor(source, parameter.name, kind, moment);
    BOOST_REQUIRE_MESSAGE(tensor != nullptr, parameter.name);
    BOOST_TEST(tensor->shape == parameter.shape);
    std::vector<float> got(parameter.numel());
    const std::vector<checkpoint::scattered_tensor> wanted{
        {tensor, {{0, got.size(), core::dtype::f32, reinterpret_cast<std::byte*>(got.data())}}}};
    const auto did = checkpoint::read_scattered(files, source, wanted);
    BOOST_REQUIRE_MESSAGE(did.has_value(), (did ? "" : did.error().text));
    BOOST_TEST(did->verified_bytes == did->bytes);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < got.size(); ++i) wrong += got[i] != value_of(q, part + salt_, i);
    BOOST_TEST(wrong == 0U, parameter.name << ", part " << part);
  }

  uint32_t salt_;
};

plan::shared_table some_table(bool with_frozen = false) {
  plan::table_writer w;
  for (uint64_t n : {3000U, 40U, 9000U, 1U, 5000U}) w.unit({{w.parameter(n)}});
  if (with_frozen) w.freeze({1, 4});
  return w.done();
}

plan::plan_options with_staging(uint32_t ranks, uint32_t stage, uint64_t staging) {
  auto o = plan::small_options(ranks, stage);
  o.saving.staging_bytes = staging;
  return o;
}

/// A disk that pauses before each file's first bytes, several times longer than the test's ranks wait in silence.
struct pausing_files : fake_files {
  struct pausing_output : checkpoint::output_file {
    explicit pausing_output(std::unique_ptr<output_file> to) : below(std::move(to)) {}
    core::result<void> expect(uint64_t bytes) override { return below->expect(bytes); }
    core::result<void> write(std::span<const std::byte> bytes) override {
      if (std::exchange(pauses, false)) std::this_thread::sleep_for(std::chrono::milliseconds(600));
      return below->write(bytes);
    }
    core::result<void> sync() override { return below->sync(); }

    std::unique_ptr<output_file> below;
    bool pauses = true;
  };
  core::result<std::unique_ptr<checkpoint::output_file>> create(const std::filesystem::path& path) override {
    auto made = fake_files::create(path);
    if (!made || !pause) return made;
    return std::make_unique<pausing_output>(std::move(*made));
  }
  bool pause = false;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(save_job)

BOOST_AUTO_TEST_CASE(every_state_is_in_the_checkpoint_whatever_the_degrees_and_however_small_the_staging) {
  for (uint32_t ranks : {1U, 2U, 3U})
    for (uint32_t stage = 0; stage < 4; ++stage)
      for (uint64_t staging : {1ULL, 100'000ULL, 64ULL << 20})
        BOOST_TEST_CONTEXT(ranks << " ranks, stage " << stage << ", staging " << staging) {
          const rig r(with_staging(ranks, stage, staging), some_table(true));
          fake_files files;
          const auto report = r.save(files, 7);
          BOOST_TEST(!report.failure);
          BOOST_TEST(report.folder == "/checkpoints/step-00000007");
          BOOST_TEST(report.bytes > 0U);
          r.expect_in(files, 7);
        }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_are_left_out_where_the_request_says_so) {
  for (uint32_t stage : {0U, 3U}) {
    const rig r(with_staging(2, stage, 1), some_table(true));
    fake_files files;
    save_request request;
    request.exclude_frozen_parameters = true;
    const auto slim = r.save(files, 1, request);
    BOOST_TEST(!slim.failure);
    r.expect_in(files, 1, false);
    const auto whole = r.save(files, 2);
    BOOST_TEST(whole.bytes > slim.bytes);
  }
}

BOOST_AUTO_TEST_CASE(older_checkpoints_go_after_the_commit_as_the_request_says) {
  const rig r(with_staging(2, 3, 1), some_table());
  fake_files files;
  save_request request;
  request.keep_last = 2;
  request.keep_every = 4;
  for (uint64_t step = 1; step <= 6; ++step) BOOST_TEST(!r.save(files, step, request).failure);
  std::vector<std::string> folders;
  const auto listed = files.list("/checkpoints");
  for (const auto& e : *listed)
    if (e.kind == checkpoint::entry_kind::folder) folders.push_back(e.name);
  BOOST_TEST(folders == (std::vector<std::string>{"step-00000004", "step-00000005", "step-00000006"}),
             boost::test_tools::per_element());
}

// Failures of the disk are no failures of the step: instructions end well, the save reports the error.
BOOST_AUTO_TEST_CASE(an_operation_that_fails_costs_the_new_checkpoint_and_nothing_else) {
  const auto table = some_table();
  const rig before(with_staging(2, 3, 1), table), after(with_staging(2, 3, 1), table, 5);
  uint64_t operations = 0;
  {
    fake_files files;
    BOOST_REQUIRE(!before.save(files, 1).failure);
    const uint64_t begin = files.operations();
    BOOST_REQUIRE(!after.save(files, 2).failure);
    operations = files.operations() - begin;
  }
  BOOST_TEST(operations > 20U);
  for (const auto why : {core::error_kind::no_space, core::error_kind::io})
    for (uint64_t n = 0; n < operations; ++n) BOOST_TEST_CONTEXT("operation " << n) {
        fake_files files;
        BOOST_REQUIRE(!before.save(files, 1).failure);
        files.fail_once_at(files.operations() + n, why);
        const auto report = after.save(files, 2);
        if (report.folder.empty()) BOOST_TEST(report.failure.has_value());
        // If the very last operation fails, `latest` names the new one, although that may not be durable.
        const auto found = checkpoint::open_checkpoint(files, "/checkpoints");
        BOOST_REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().text));
        const bool is_new = found->content.run.step == 2;
        BOOST_TEST((is_new ? !report.folder.empty() || n + 1 == operations : report.folder.empty()));
        (is_new ? after : before).expect_in(files, is_new ? 2 : 1);
        BOOST_TEST(!after.save(files, 3).failure);  // the next one succeeds
        after.expect_in(files, 3);
      }
}

BOOST_AUTO_TEST_CASE(after_a_power_cut_the_old_or_the_new_checkpoint_is_there) {
  const auto table = some_table();
  const rig before(with_staging(2, 3, 1), table), after(with_staging(2, 3, 1), table, 5);
  uint64_t operations = 0, news = 0;
  {
    fake_files files;
    BOOST_REQUIRE(!before.save(files, 1).failure);
    const uint64_t begin = files.operations();
    BOOST_REQUIRE(!after.save(files, 2).failure);
    operations = files.operations() - begin;
  }
  for (uint64_t n = 0; n <= operations; ++n)
    for (const auto what :
         {checkpoint::survival::nothing, checkpoint::survival::everything, checkpoint::survival::any}) {
      fake_files files;
      BOOST_REQUIRE(!before.save(files, 1).failure);
      files.lose_power_at(files.operations() + n);
      const auto report = after.save(files, 2);
      const auto again = files.after_power_cut(what, n);
      const auto found = checkpoint::open_checkpoint(*again, "/checkpoints");
      BOOST_REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().text));
      const bool is_new = found->content.run.step == 2;
      if (!report.folder.empty()) BOOST_TEST(is_new);
      news += is_new;
      (is_new ? after : before).expect_in(*again, is_new ? 2 : 1);
      BOOST_REQUIRE(checkpoint::remove_leftovers(*again, "/checkpoints").has_value());
      (is_new ? after : before).expect_in(*again, is_new ? 2 : 1);
    }
  BOOST_TEST(news > 0U);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_given_up_leaves_no_part_of_a_checkpoint_but_keeps_one_that_was_copied) {
  const rig r(with_staging(2, 3, 1), some_table());
  for (size_t last : {size_t{0}, size_t{1}, size_t{3}}) {
    fake_files files;
    BOOST_REQUIRE(!r.save(files, 1).failure);
    auto job = r.begin(files, 2);
    BOOST_REQUIRE(job.has_value());
    r.run(*job, last);
    const auto report = (*job)->wait();
    BOOST_REQUIRE(report.failure.has_value());
    BOOST_TEST((report.failure->kind == core::error_kind::stopped));
    r.expect_in(files, 1);
    BOOST_TEST(files.list("/checkpoints")->size() == 2U);  // step 1 and `latest`
  }
}

BOOST_AUTO_TEST_CASE(a_disk_that_pauses_during_a_save_makes_the_run_wait) {
  const rig r(with_staging(1, 3, 1), some_table());
  patience p;
  p.stall_after = std::chrono::milliseconds(100);
  auto parts = scripted_ranks(r.plans, {}, p);
  parts[0].lanes[static_cast<size_t>(plan::lane::writer)] = [mine = r.memory[0]] {
    return std::make_unique<writer_executor>(mine, std::make_unique<state_store>(*mine));
  };
  std::vector<std::string> told;
  parts[0].setup.tell = [&](const std::string& line) { told.push_back(line); };
  pausing_files files;
  threaded_company c(r.plans, std::move(parts), empty_batches());
  for (uint64_t step : {1U, 2U}) {
    auto job = r.begin(files, step);
    BOOST_REQUIRE(job.has_value());
    files.pause = step == 1;
    const auto out = c.run({}, nullptr, *job);
    BOOST_TEST(!out.failure, (out.failure ? out.failure->text : ""));
    BOOST_TEST(!(*job)->wait().failure);
    r.expect_in(files, step);
  }
  BOOST_REQUIRE(told.size() == 1U);
  BOOST_TEST(says(told[0], "rank 0: nothing has ended for 0."), told[0]);
  BOOST_TEST(says(told[0], "writer lane is in snapshot"), told[0]);
}

BOOST_AUTO_TEST_CASE(a_save_whose_ranks_never_begin_ends_when_it_is_abandoned) {
  const rig r(with_staging(3, 1, 1), some_table());
  fake_files files;
  auto job = r.begin(files, 1);
  BOOST_REQUIRE(job.has_value());
  BOOST_TEST(!(*job)->is_over());
  (*job)->abandon({core::error_kind::peer_lost, "rank 1 is gone"});
  BOOST_TEST((*job)->is_over());
  BOOST_TEST((*job)->wait().failure->text.find("rank 1 is gone") != std::string::npos);
  r.run(*job);  // too late: does nothing
  BOOST_TEST(files.list("/checkpoints")->empty());
}

BOOST_AUTO_TEST_SUITE_END()
