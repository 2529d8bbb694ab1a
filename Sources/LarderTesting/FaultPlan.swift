// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// The engine's fault points are internal to the package; a user of the kit needs only their names. A
// plan is a value that is passed to a child as one environment variable, whose syntax
// LarderSystem/FaultPoint.swift describes.

/// The faults that a child process gets inside Larder: points at which it is killed, stopped or
/// delayed, or gets a system error.
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
/// Fault points exist only in builds of the test and the worker with the package trait
/// `FaultInjection`. Other builds have no cost:
///
/// ```swift
/// .package(url: "…/larder", from: "1.0.0", traits: ["FaultInjection"])
/// ```
///
/// Without the trait no fault occurs and such a test would prove nothing, so ``environment`` throws.
/// Use ``isCompiledIn`` to skip such tests.
public struct FaultPlan: Hashable, Sendable, CustomStringConvertible {
  /// The error of a plan in a build without fault points.
  public struct NotCompiledIn: Error, Sendable, Hashable, CustomStringConvertible {
    /// The remedy.
    public var description: String {
      "This build has no fault points, so no fault would occur. Enable the trait "
        + "FaultInjection of the package larder (`swift test --traits FaultInjection` in Larder's "
        + "directory), or skip the test unless FaultPlan.isCompiledIn."
    }
  }

  /// Whether this build of Larder has fault points.
  ///
  /// ```swift
  /// @Test(.enabled(if: FaultPlan.isCompiledIn, "needs the trait FaultInjection"))
  /// ```
  ///
  /// The value describes this process, and children that are built together with it.
  public static var isCompiledIn: Bool { FaultInjection.isCompiledIn }

  /// The environment variable that contains the plan.
  public static let variable = "LARDER_FAULTS"

  /// The faults. Faults of one point occur in this order.
  public var faults: [Fault]
  /// The seed that selects occurrences by percentage, or `nil` for a new selection in each run.
  public var seed: Seed?

  /// Creates a plan, which may be empty.
  ///
  /// - Parameters:
  ///   - faults: The faults of the plan.
  ///   - seed: The seed that makes percentages repeatable. Pass another ``Seed/derived(_:)`` to each
  ///     of several children.
  public init(_ faults: [Fault] = [], seed: Seed? = nil) {
    self.faults = faults
    self.seed = seed
  }

  /// The environment variables with which to start a child.
  ///
  /// The child reads them once, at its first fault point.
  ///
  /// - Throws: ``NotCompiledIn`` if the plan has faults and the build has no fault points.
  public var environment: [String: String] {
    get throws(NotCompiledIn) {
      if !faults.isEmpty && !Self.isCompiledIn { throw NotCompiledIn() }
      return [Self.variable: description]
    }
  }

  /// The plan in the syntax of the environment variable.
  public var description: String {
    let start = seed.map { ["seed=\($0.value)"] } ?? []
    return (start + faults.map(\.description)).joined(separator: ",")
  }
}

extension FaultPlan {
  /// A fault: an action at a fault point, and the occurrences at which it takes place.
  public struct Fault: Hashable, Sendable, CustomStringConvertible {
    /// The fault in the syntax of the environment variable.
    public let description: String

    private init(
      _ action: String, at point: Point, amount: Int? = nil, occurrence: Int?, percent: Double?
    ) {
      precondition(occurrence ?? 1 > 0, "The first occurrence of a fault point is number 1.")
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
    ///   - occurrence: The number of the occurrence, or `nil` for the first one.
    ///   - percent: The probability at each occurrence, or at the given one.
    public static func kill(
      at point: Point, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("kill", at: point, occurrence: occurrence, percent: percent)
    }

    /// The process stops itself. ``ChildProcess/waitUntilStopped(deadline:)`` waits for that, and
    /// ``ChildProcess/continue()`` resumes it.
    ///
    /// - Parameters:
    ///   - point: The fault point.
    ///   - occurrence: The number of the occurrence, or `nil` for all.
    ///   - percent: The probability at each occurrence, or at the given one.
    public static func stop(
      at point: Point, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("stop", at: point, occurrence: occurrence, percent: percent)
    }

    /// The thread spins for some time, so that other threads run between its steps.
    ///
    /// - Parameters:
    ///   - point: The fault point.
    ///   - microseconds: The time for which the thread spins.
    ///   - occurrence: The number of the occurrence, or `nil` for all.
    ///   - percent: The probability at each occurrence, or at the given one.
    public static func delay(
      at point: Point, microseconds: Int, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      Fault("delay", at: point, amount: microseconds, occurrence: occurrence, percent: percent)
    }

    /// The step fails with a system error.
    ///
    /// The caller gets a `StoreError`: `storageFull` for `ENOSPC`, `EFBIG` and `EDQUOT`,
    /// else `system` with the number. A cache whose write finds a full disk evicts entries and
    /// retries once, so a fault at one occurrence is not visible.
    ///
    /// - Parameters:
    ///   - point: A fault point whose step can fail; see ``Point/canFail``. Others trap.
    ///   - errno: The error number, such as `ENOSPC`; 5 is `EIO`.
    ///   - occurrence: The number of the occurrence, or `nil` for all.
    ///   - percent: The probability at each occurrence, or at the given one.
    public static func error(
      at point: Point, errno: Int32 = 5, occurrence: Int? = nil, percent: Double? = nil
    ) -> Fault {
      // Storms are optimised, where a precondition prints nothing.
      if !point.canFail {
        fatalError("\(point) cannot fail. Use kill, stop or delay, or another point.")
      }
      return Fault(
        "error", at: point, amount: Int(errno), occurrence: occurrence, percent: percent)
    }
  }
}
