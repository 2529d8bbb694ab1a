// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder

/// The fate of each job, from the results and starts that the workers stored.
struct Report {
  private(set) var isCorrect = true
  private var lines: [String] = []

  init(_ jobs: JobStore, count: Int, victim: Int32?, duration: Duration) throws {
    let numbers = 1...count
    let outcomes = try jobs.outcomes.values(forKeys: numbers)
    let starts = try jobs.starts.values(forKeys: numbers)
    let failed = try jobs.queue.failed.elements(limit: count)

    let long = count / 2
    let attempts = starts.values.reduce(0) { $0 + $1.count }
    let repeated = outcomes.filter { $0.value.attempt > 1 && $0.key != long }
    lines = [
      "\(outcomes.count) jobs completed exactly once",
      "  \(outcomes.values.count { $0.attempt == 1 }) in the first attempt",
      "  \(repeated.count) after a failure",
      "  1 after the death of worker \(victim ?? 0): job \(long), which worker "
        + "\(outcomes[long]?.worker ?? 0) completed in attempt \(outcomes[long]?.attempt ?? 0)",
      "\(failed.count) moved to `failed` after 3 attempts: job \(failed.first?.number ?? 0)",
      "\(attempts) attempts in \(duration.formatted), at most \(JobStore.rate) a second",
    ]

    check(outcomes.count == count - 1, "each job but one is completed, not \(outcomes.count)")
    check(outcomes.values.allSatisfy { $0.completions == 1 }, "no job is completed twice")
    check(failed.map(\.number) == [13], "job 13 has failed, not \(failed.map(\.number))")
    check(starts[13]?.count == 3, "job 13 is tried three times, not \(starts[13]?.count ?? 0)")
    check(outcomes[long]?.attempt == 2, "the job of the killed worker needs a second attempt")
    check(outcomes[long]?.worker != victim, "another worker does the job of the killed one")
    check(starts[long]?.first == victim, "the killed worker had job \(long)")
    for number in numbers where number != 13 && number != long {
      let expected = number % 10 == 7 ? 2 : 1
      check(
        outcomes[number]?.attempt == expected && starts[number]?.count == expected,
        "job \(number) needs \(expected) attempts, not \(starts[number]?.count ?? 0)")
    }
    let permitted = Double(JobStore.burst) + Double(JobStore.rate) * (duration / .seconds(1))
    check(Double(attempts) <= permitted, "the rate permits \(Int(permitted)) attempts")
  }

  mutating func check(_ condition: Bool, _ expectation: String) {
    guard !condition else { return }
    isCorrect = false
    lines.append("WRONG: \(expectation)")
  }

  func print() {
    for line in lines { Swift.print(line) }
  }
}

extension Duration {
  fileprivate var formatted: String { formatted(.units(allowed: [.seconds], width: .narrow)) }
}
