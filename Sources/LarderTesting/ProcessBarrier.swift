// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Processes that should collide must start together. Each child writes that it is ready and blocks in
// a read; when all are ready, the parent writes to all of them. The time between the first and the
// last start is that of a few small writes.

/// A barrier that starts several processes at the same time.
///
/// ```swift
/// let workers = try (0..<4).map { try TestExecutable("worker").start(["\($0)"]) }
/// try ProcessBarrier.release(workers)
///
/// // in the worker, when it has opened what it needs
/// guard ProcessBarrier.arrive() else { exit(0) }
/// ```
public enum ProcessBarrier {
  /// The line by which a child reports that it is ready.
  public static let ready = "ready"
  /// The line it waits for.
  public static let go = "go"

  /// Waits until every child has arrived, then lets all of them go.
  ///
  /// The next line of each child must be ``ready``. One `deadline` is for all of them.
  ///
  /// - Throws: A ``ChildProcessError`` of the first child that did not arrive. None has been let
  ///   go then.
  public static func release(
    _ children: [ChildProcess], deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) {
    let limit = ContinuousClock.now + deadline
    for child in children {
      let left = max(.zero, ContinuousClock.now.duration(to: limit))
      try child.expect(ready, deadline: left)
    }
    for child in children { try child.send(go) }
  }

  /// Reports in the child that it is ready, and returns when all processes may continue.
  ///
  /// - Returns: `false` if the parent has gone instead. There is nothing to do then but exit.
  public static func arrive() -> Bool {
    ParentProcess.send(ready)
    return ParentProcess.nextLine() == go
  }
}
