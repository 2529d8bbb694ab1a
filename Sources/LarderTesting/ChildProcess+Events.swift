// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension ChildProcess {
  /// Reads lines until one is `line`, and returns those that came before it.
  ///
  /// ```swift
  /// try worker.wait(for: "opened")
  /// ```
  ///
  /// - Throws: `timedOut` when it does not come in time, whatever else came; `endOfOutput` when it
  ///   can come no more, with the exit status if the child has ended.
  @discardableResult
  public func wait(
    for line: String, deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) -> [String] {
    var passed: [String] = []
    _ = try nextLine(deadline: deadline) { found in
      if found == line { return true }
      passed.append(found)
      return false
    }
    return passed
  }

  /// Reads lines until one satisfies a condition, and returns it. The others are dropped.
  ///
  /// ```swift
  /// let acknowledged = try worker.nextLine { $0.hasPrefix("stored ") }
  /// ```
  ///
  /// - Throws: `timedOut` and `endOfOutput`, as ``wait(for:deadline:)``.
  public func nextLine(
    deadline: Duration = .seconds(600), where condition: (String) -> Bool
  ) throws(ChildProcessError) -> String {
    let limit = ContinuousClock.now + deadline
    while true {
      let left = max(.zero, ContinuousClock.now.duration(to: limit))
      let line = try nextLine(deadline: left)
      if condition(line) { return line }
      // A child that never stops talking always has another line.
      if ContinuousClock.now >= limit {
        throw failure(.timedOut, "read a line", "Only others came.")
      }
    }
  }
}
