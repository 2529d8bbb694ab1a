// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// The engine's fault points are a package's affair; what a user of the kit needs of them is names.
// A plan is a value, and travels to a child as one environment variable, whose language is described
// in LarderSystem/FaultPoint.swift.

/// Faults a child process is to meet inside Larder: where it is killed, stopped, delayed, or told
/// that the disk is full.
///
/// ```swift
/// let plan = FaultPlan([
///   .kill(at: .afterStamps, passage: 7),
///   .delay(at: .beforeCommit, microseconds: 2000, percent: 10),
/// ])
/// let worker = try TestExecutable("worker").start([store.path], environment: plan.environment)
/// #expect(try worker.wait() == .killed)
/// try store.verifyAndClose()
/// ```
///
/// Fault points exist only in builds with the package trait `FaultInjection`, of the test and of
/// the worker, so that nobody else pays for them:
///
/// ```swift
/// .package(url: "…/larder", from: "1.0.0", traits: ["FaultInjection"])
/// ```
///
/// A build without it cannot meet a fault, and would be a test that proves nothing: there
/// ``environment`` throws. Leave such tests out by ``isCompiledIn``.
public struct FaultPlan: Hashable, Sendable, CustomStringConvertible {
  /// A plan for a build that has no fault points.
  public struct NotCompiledIn: Error, Sendable, Hashable, CustomStringConvertible {
    /// What to do about it.
    public var description: String {
      "This build has no fault points, so the child would never meet one. Enable the trait "
        + "FaultInjection of the package larder (`swift test --traits default,FaultInjection` in Larder's "
        + "own directory), or leave the test out unless FaultPlan.isCompiledIn."
    }
  }

  /// Whether this build of Larder has fault points.
  ///
  /// ```swift
  /// @Test(.enabled(if: FaultPlan.isCompiledIn, "needs the trait FaultInjection"))
  /// ```
  ///
  /// It speaks of the process that asks. A child built together with it answers the same.
  public static var isCompiledIn: Bool { FaultInjection.isCompiledIn }

  /// The environment variable a process is armed by.
  public static let variable = "LARDER_FAULTS"

  /// What happens, in the order the faults of one point are met.
  public var faults: [Fault]
  /// Which passages a percentage picks; `nil`: others in each run.
  public var seed: Seed?

  /// A plan of some faults; none at all is a plan, too.
  ///
  /// - Parameters:
  ///   - faults: The faults of the plan.
  ///   - seed: Makes percentages repeatable: the same passages of the same points. Give each of
  ///     several children another ``Seed/derived(_:)``.
  public init(_ faults: [Fault] = [], seed: Seed? = nil) {
    self.faults = faults
    self.seed = seed
  }

  /// What to start a child with.
  ///
  /// It is read when the child first passes a fault point. A process reads it once.
  ///
  /// - Throws: ``NotCompiledIn`` when there is a fault and no fault point.
  public var environment: [String: String] {
    get throws(NotCompiledIn) {
      if !faults.isEmpty && !Self.isCompiledIn { throw NotCompiledIn() }
      return [Self.variable: description]
    }
  }

  /// The plan as the environment has it.
  public var description: String {
    let start = seed.map { ["seed=\($0.value)"] } ?? []
    return (start + faults.map(\.description)).joined(separator: ",")
  }
}

extension FaultPlan {
  /// One fault: what happens, where, and at which passage.
  public struct Fault: Hashable, Sendable, CustomStringConvertible {
    /// As the environment has it.
    public let description: String

    private init(
      _ action: String, at point: Point, amount: Int? = nil, occurrence: Int?, percent: Double?
    ) {
      precondition(occurrence ?? 1 > 0, "The first passage of a fault point is number 1.")
      precondition((0...100).contains(percent ?? 0), "A percentage is a number from 0 to 100.")
      precondition(amount ?? 0 >= 0, "The argument of a fault is not negative.")
      description =
        "\(point.rawValue):\(action)" + (amount.map { "=\($0)" } ?? "")
        + (occurrence.map { "@\($0)" } ?? "") + (percent.map { "%\($0)" } ?? "")
    }

    /// The process kills itself with `SIGKILL`.
    ///
    /// - Parameters:
    ///   - point: The fault point.
    ///   - occurrence: At the n-th occurrence only; else at the first one.
    ///   - percent: At each passage (or at that one) with this probability.
    public static func kill(
      at point: Point, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("kill", at: point, occurrence: occurrence, percent: percent)
    }

    /// The process stops itself: ``ChildProcess/waitUntilStopped(deadline:)`` tells when, and
    /// ``ChildProcess/continue()`` lets it go on.
    ///
    /// - Parameters:
    ///   - point: The fault point.
    ///   - occurrence: At the n-th occurrence only; else at every one.
    ///   - percent: At each passage (or at that one) with this probability.
    public static func stop(
      at point: Point, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("stop", at: point, occurrence: occurrence, percent: percent)
    }

    /// The thread is busy with nothing for some time, so that others get between its steps.
    ///
    /// - Parameters:
    ///   - point: The fault point.
    ///   - microseconds: How long the thread is busy.
    ///   - occurrence: At the n-th occurrence only; else at every one.
    ///   - percent: At each passage (or at that one) with this probability.
    public static func delay(
      at point: Point, microseconds: Int, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("delay", at: point, amount: microseconds, occurrence: occurrence, percent: percent)
    }

    /// The step fails as if the system had refused it.
    ///
    /// The caller gets a `StoreError`: `storageFull` for `ENOSPC`, `EFBIG` and `EDQUOT`,
    /// else `system` with the number. A cache that meets a full disk in a write makes room and
    /// tries once more, so that one passage alone is not noticed.
    ///
    /// - Parameters:
    ///   - point: One whose step can fail; see ``Point/canFail``. Another one is a trap.
    ///   - errno: The error number, such as `ENOSPC`; 5 is `EIO`.
    ///   - occurrence: At the n-th occurrence only; else at every one.
    ///   - percent: At each passage (or at that one) with this probability.
    public static func error(
      at point: Point, errno: Int32 = 5, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      precondition(
        point.canFail, "No step can fail at \(point): use kill, stop or delay, or another point.")
      return Fault(
        "error", at: point, amount: Int(errno), occurrence: occurrence, percent: percent)
    }
  }
}
