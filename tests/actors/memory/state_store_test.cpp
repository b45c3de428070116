// Tests copying elements of states to and from plans of all stages, types and tiers, compared with plain copies and
// with the bytes that a step uses.
#include "actors/memory/state_store.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <random>

#include "core/math.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(state_store)

using namespace troupe;
using namespace troupe::actors;
using plan::state_part;
using troupe::tests::check_ok;

namespace {

using bytes = std::vector<std::byte>;

constexpr state_part all_parts[] = {state_part::gradient,      state_part::master,       state_part::first_moment,
                                    state_part::second_moment, state_part::third_moment, state_part::copy};

/// A rank's memory and swap file, and a plain copy of all values that were written there.
struct rank_of_states {
  explicit rank_of_states(const std::shared_ptr<const plan::rank_plan>& plan) {
    auto taken = check_ok(rank_memory::allocate(plan, plan::pools_of(*plan)));
    memory = *taken;
    if (plan->swap_file_bytes > 0) {
      auto file =
          check_ok(storage::swap_file::in_memory("states", plan->swap_file_bytes, plan->options().tiers.checksums));
      memory->use_swap_file(*file);
    }
  }

  /// Returns true if the part has no memory of its own but that of the weight: in fp32 the weight is the master weight.
  [[nodiscard]] bool is_alias(state_part part) const {
    return part == state_part::master && memory->plan().options().master_is_parameter();
  }

  void write_random(std::mt19937_64& random) {
    const state_store store(*memory);
    for (uint32_t q = 0; q < memory->plan().table().parameters.size(); ++q)
      for (const auto part : all_parts) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        const auto held = store.held(q, part);
        if (held.count == 0 || is_alias(part)) continue;
        const uint64_t element = core::size_of(store.type_of(part));
        auto& mine = copies[{q, part}];
        mine.resize(held.count * element);
        for (auto& x : mine) x = static_cast<std::byte>(random());
        for (uint64_t done = 0; done < held.count;) {
          BOOST_TEST_INFO_SCOPE("done " << done);
          const uint64_t n = std::min(held.count - done, 1 + random() % held.count);
          check_ok(store.write(q, part, held.first + done, std::span(mine).subspan(done * element, n * element)));
          done += n;
        }
      }
  }

  void check_reads(std::mt19937_64& random) const {
    const state_store store(*memory);
    for (uint32_t q = 0; q < memory->plan().table().parameters.size(); ++q)
      for (const auto part : all_parts) {
        const auto held = store.held(q, part);
        if (held.count == 0) continue;
        const auto& whole = copies.at({q, is_alias(part) ? state_part::copy : part});
        const uint64_t element = core::size_of(store.type_of(part));
        const uint64_t begin = held.first - store.held(q, is_alias(part) ? state_part::copy : part).first;
        for (int i = 0; i < 3; ++i) {
          const uint64_t first = i == 0 ? 0 : random() % held.count;
          const uint64_t count = i == 0 ? held.count : 1 + random() % (held.count - first);
          bytes got(count * element);
          check_ok(store.read(q, part, held.first + first, got));
          BOOST_TEST(std::equal(got.begin(), got.end(), whole.begin() + long((begin + first) * element)),
                     "parameter " << q << ", part " << int(part) << ", elements " << first << " + " << count);
        }
      }
  }

  /// Compares the states with the bytes at the addresses that a step uses: in memory, or in a window into which a block
  /// was read.
  void check_step_sees_it() const {
    const auto& p = memory->plan();
    const state_store store(*memory);
    for (const auto& group : p.sub_groups)
      for (const auto& piece : group.pieces) {
        bytes window;
        if (!p.blocks.empty()) {
          const auto& b = plan::block_at(p, piece.state_offset);
          window.resize(std::max<uint64_t>(1, plan::extent_bytes(*p.layout, b)));
          if (plan::extent_bytes(*p.layout, b) > 0)
            BOOST_REQUIRE(
                memory->swap_file()->read(b.file_offset, std::span(window).first(plan::extent_bytes(*p.layout, b))));
        }
        const auto same = [&](state_part part, const std::byte* at) {
          bytes wanted(piece.range.count * core::size_of(store.type_of(part)));
          BOOST_REQUIRE(store.read(piece.parameter, part, piece.range.first, wanted));
          BOOST_REQUIRE(at != nullptr);
          BOOST_TEST(std::memcmp(at, wanted.data(), wanted.size()) == 0,
                     "parameter " << piece.parameter << ", part " << int(part));
        };
        same(state_part::master, memory->master(piece, window.data()));
        for (uint32_t k = 0; k < p.options().update_of(piece.parameter).moments; ++k)
          same(plan::moment_part(k), memory->moment(piece, k, window.data()));
        same(state_part::gradient, memory->gradient(piece, window.data()));
        if (!p.options().master_is_parameter()) same(state_part::copy, memory->copy(piece, window.data()));
      }
  }

  /// Checks the slices that stay in memory and returns the number of slices compared.
  [[nodiscard]] uint64_t check_caches() const {
    const auto& p = memory->plan();
    uint64_t caches = 0;
    for (uint32_t set = 0; set < p.layout->cached.size(); ++set) {
      if (!p.layout->cached[set]) continue;
      const auto runs = plan::shard_runs(p, set);
      const uint64_t element = core::size_of(p.options().types.parameter);
      for (const auto& x : p.layout->gather_sets[set].parameters) {
        const auto own = p.layout->slice_of(x.parameter, p.rank);
        if (own.count == 0) continue;
        const std::byte* at =
            memory->cached(set) + plan::in_window(runs, plan::linear_place(p, x.parameter, own.first)) * element;
        const auto& wanted = copies.at({x.parameter, state_part::copy});
        BOOST_TEST(std::memcmp(at, wanted.data(), wanted.size()) == 0, "cached set " << set);
        ++caches;
      }
    }
    return caches;
  }

  std::shared_ptr<rank_memory> memory;
  std::map<std::pair<uint32_t, state_part>, bytes> copies;
};

}  // namespace

BOOST_AUTO_TEST_CASE(elements_that_were_written_are_read_again_wherever_they_lie) {
  uint64_t swapped = 0, cached = 0, resident = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937_64 random(seed);
    const auto table = plan::random_table(random);
    auto options = plan::random_options(*table, random);
    options.mode = plan::mode::train;
    if (seed % 3 != 0 && options.stage > 0) options.tiers = plan::random_tiers(options, random);
    if (random() % 2 == 0) options.tiers.resident_parameters = 20'000;
    if (options.tiers.swaps())
      for (auto& x : options.updates.rules) x.need = plan::update_need::elements;
    if (seed % 4 == 0) plan::put_in_groups(options);
    const auto layout = plan::make_layout(table, options);
    if (!layout) continue;  // the model is too small for so many ranks, or all its parameters are frozen
    for (uint32_t r = 0; r < options.ranks(); ++r) {
      const auto made = *plan::generate(*layout, r);
      BOOST_TEST_CONTEXT("seed " << seed << ", rank " << r << ", stage " << options.stage) {
        rank_of_states one(made);
        one.write_random(random);
        one.check_reads(random);
        one.check_step_sees_it();
        cached += one.check_caches();
        (made->swap_file_bytes > 0 ? swapped : resident) += 1;
      }
    }
  }
  BOOST_TEST(swapped > 20U);
  BOOST_TEST(resident > 20U);
  BOOST_TEST(cached > 20U);
}

BOOST_AUTO_TEST_CASE(elements_become_another_type_window_by_window) {
  auto options = plan::small_options(2, 3);
  options.types.parameter = core::dtype::bf16;
  options.types.communication = core::dtype::bf16;
  options.tiers.optimizer = options.tiers.parameters = plan::tier::nvme;
  const auto plans = plan::plans_of(plan::chain_table({3000, 2 * state_window_elements + 5000}), options);
  rank_of_states one(plans[1]);
  const actors::state_store store(*one.memory);
  for (const auto part : {state_part::master, state_part::copy}) {
    const auto held = store.held(1, part);
    BOOST_TEST(held.count > actors::state_window_elements);
    std::vector<float> values(held.count), got(held.count);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 256);
    const auto* from = reinterpret_cast<const std::byte*>(values.data());
    BOOST_REQUIRE(store.write_as(1, part, held, core::dtype::f32, from));
    BOOST_REQUIRE(store.read_as(1, part, held, core::dtype::f32, reinterpret_cast<std::byte*>(got.data())));
    BOOST_TEST((values == got));
  }
}

BOOST_AUTO_TEST_CASE(a_frozen_parameter_has_weights_and_nothing_else) {
  plan::table_writer w;
  w.unit({{w.parameter(5000)}});
  w.unit({{w.parameter(9000)}});
  w.freeze({0});
  auto options = plan::small_options(1, 3);
  options.tiers.parameters = plan::tier::nvme;
  const auto plans = plan::plans_of(w.done(), options);
  rank_of_states one(plans[0]);
  const actors::state_store store(*one.memory);
  for (const auto part : all_parts) BOOST_TEST(store.held(0, part).count == (part == state_part::copy ? 5000U : 0U));
  BOOST_TEST(store.in_memory(0, state_part::copy, {0, 5000}) == nullptr);
  BOOST_TEST(store.in_memory(1, state_part::first_moment, {0, 9000}) != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
