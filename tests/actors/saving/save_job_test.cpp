// Tests a checkpoint written by the writer lanes of all ranks, on a file system that fails and loses power on demand.
#include "actors/saving/save_job.hpp"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "tests/actors/saving/save_rig.hpp"
#include "tests/check_ok.hpp"
#include "tests/fakes/file_system.hpp"

BOOST_AUTO_TEST_SUITE(save_job)

using namespace troupe;
using namespace troupe::actors;
using storage::fake_files;
using troupe::tests::check_ok;

namespace {

using rig = save_rig;

/// A file system that blocks each file's first write until the rank has reported that it waits for it.
struct pausing_files : fake_files {
  struct pausing_output : storage::output_file {
    pausing_output(std::unique_ptr<output_file> to, const std::atomic<bool>& said)
        : below(std::move(to)), has_said(said) {}
    core::result<void> expect(uint64_t bytes) override { return below->expect(bytes); }
    core::result<void> write(std::span<const std::byte> bytes) override {
      for (int i = 0; i < 6000 && !has_said; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return below->write(bytes);
    }
    core::result<void> sync() override { return below->sync(); }

    std::unique_ptr<output_file> below;
    const std::atomic<bool>& has_said;
  };
  core::result<std::unique_ptr<storage::output_file>> create(const std::filesystem::path& path) override {
    auto made = fake_files::create(path);
    if (!made || !pause) return made;
    return std::make_unique<pausing_output>(std::move(*made), has_said);
  }
  bool pause = false;
  std::atomic<bool> has_said = false;
};

/// Returns the steps of the checkpoints, ascending.
std::vector<uint64_t> steps_in(fake_files& files) {
  std::vector<uint64_t> out;
  const auto listed = files.list("/checkpoints");
  BOOST_REQUIRE(listed.has_value());
  for (const auto& e : *listed)
    if (const auto step = checkpoint::step_of(e.name)) out.push_back(*step);
  std::ranges::sort(out);
  return out;
}

}  // namespace

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
    BOOST_TEST_INFO_SCOPE("stage " << stage);
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

BOOST_AUTO_TEST_CASE(older_checkpoints_go_once_the_new_one_is_committed_and_proved_as_the_request_says) {
  const rig r(with_staging(2, 3, 1), some_table());
  save_request request;
  request.keep_last = 2;
  request.keep_every = 4;
  for (const bool is_proved_first : {true, false}) {
    BOOST_TEST_INFO_SCOPE("proved first " << is_proved_first);
    fake_files files;
    for (uint64_t step = 1; step <= 6; ++step) {
      BOOST_TEST_INFO_SCOPE("step " << step);
      const auto job = r.begin(files, step, request);
      BOOST_REQUIRE(job.has_value());
      if (is_proved_first) BOOST_TEST((*job)->prove().value() == false);
      r.run(*job);
      BOOST_TEST(!(*job)->wait().failure);
      if (!is_proved_first && step > 2) BOOST_TEST(steps_in(files).size() > 2U);
      // The second call has no effect.
      BOOST_TEST((*job)->prove().value() == !is_proved_first);
      BOOST_TEST((*job)->prove().value() == false);
    }
    BOOST_TEST(steps_in(files) == (std::vector<uint64_t>{4, 5, 6}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_that_nothing_proves_remove_none_however_many_there_are) {
  const rig r(with_staging(2, 3, 1), some_table());
  fake_files files;
  save_request request;
  request.keep_last = 1;
  for (uint64_t step = 1; step <= 4; ++step) BOOST_TEST(!r.save(files, step, request).failure);
  BOOST_TEST(steps_in(files) == (std::vector<uint64_t>{1, 2, 3, 4}), boost::test_tools::per_element());

  // A proof of a save that has failed removes nothing, either.
  const auto failed = r.begin(files, 5, request);
  BOOST_REQUIRE(failed.has_value());
  (*failed)->abandon({core::error_kind::peer_lost, "rank 1 is gone"});
  BOOST_TEST((*failed)->prove().value() == false);
  BOOST_TEST(steps_in(files).size() == 4U);

  const auto proved = r.begin(files, 6, request);
  BOOST_REQUIRE(proved.has_value());
  r.run(*proved);
  BOOST_TEST((*proved)->prove().value() == true);
  BOOST_TEST(steps_in(files) == (std::vector<uint64_t>{6}), boost::test_tools::per_element());
}

// A failure of the disk must not fail the step: instructions succeed, and the save reports the error.
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
        // If the very last operation fails, `latest` names the new checkpoint, although that may not be durable.
        const auto found = check_ok(checkpoint::open_checkpoint(files, "/checkpoints"));
        const bool is_new = found->content.run.step == 2;
        BOOST_TEST((is_new ? !report.folder.empty() || n + 1 == operations : report.folder.empty()));
        (is_new ? after : before).expect_in(files, is_new ? 2 : 1);
        BOOST_TEST(!after.save(files, 3).failure);  // the next save succeeds
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
    for (const auto what : {storage::survival::nothing, storage::survival::everything, storage::survival::any}) {
      BOOST_TEST_INFO_SCOPE("n " << n);
      fake_files files;
      BOOST_REQUIRE(!before.save(files, 1).failure);
      files.lose_power_at(files.operations() + n);
      const auto report = after.save(files, 2);
      const auto again = files.after_power_cut(what, n);
      const auto found = check_ok(checkpoint::open_checkpoint(*again, "/checkpoints"));
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
    BOOST_TEST_INFO_SCOPE("last " << last);
    fake_files files;
    BOOST_REQUIRE(!r.save(files, 1).failure);
    auto job = check_ok(r.begin(files, 2));
    r.run(*job, last);
    const auto report = (*job)->wait();
    BOOST_REQUIRE(report.failure.has_value());
    BOOST_TEST((report.failure->kind == core::error_kind::stopped));
    r.expect_in(files, 1);
    BOOST_TEST(files.list("/checkpoints")->size() == 2U);  // the files are the checkpoint of step 1 and `latest`
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
  pausing_files files;
  std::vector<std::string> told;
  parts[0].setup.tell = [&](const std::string& line) {
    told.push_back(line);
    files.has_said = true;
  };
  threaded_company c(r.plans, std::move(parts), empty_batches());
  for (uint64_t step : {1U, 2U}) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    auto job = check_ok(r.begin(files, step));
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
  auto job = check_ok(r.begin(files, 1));
  BOOST_TEST(!(*job)->is_over());
  (*job)->abandon({core::error_kind::peer_lost, "rank 1 is gone"});
  BOOST_TEST((*job)->is_over());
  BOOST_TEST((*job)->wait().failure->text.find("rank 1 is gone") != std::string::npos);
  r.run(*job);  // the save has already ended, so the call has no effect
  BOOST_TEST(files.list("/checkpoints")->empty());
}

BOOST_AUTO_TEST_SUITE_END()
