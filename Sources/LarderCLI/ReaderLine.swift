// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

/// A process that holds an old snapshot, as all commands show it.
struct ReaderLine {
  let pid: Int32
  let isStopped: Bool
  /// The age of its oldest read; `nil` if the store itself holds the snapshot: for a checkpoint, a check or a copy.
  let seconds: Int?
  let commitsBehind: Int
  let pinnedBytes: Int

  init(_ reader: StoreStatistics.Reader) {
    (pid, isStopped, pinnedBytes) = (reader.pid, reader.isStopped, reader.pinnedBytes)
    commitsBehind = reader.transactionsBehind
    seconds = reader.duration.map { Int($0.components.seconds) }
  }

  init(_ reader: StoreObservation.Reader, pageSize: Int) {
    (pid, isStopped, commitsBehind) = (reader.pid, reader.isStopped, reader.commitsBehind)
    seconds = reader.milliseconds.map { Int($0 / 1000) }
    pinnedBytes = reader.pinnedPages.multipliedReportingOverflow(by: pageSize).partialValue
  }

  var text: String {
    var text = "process \(pid)" + (isStopped ? " (stopped)" : "")
    text += seconds.map { ", for \($0) s" } ?? ", for a checkpoint, check or copy"
    return text + ", \(TextLayout.grouped(commitsBehind)) commits behind, keeps "
      + "\(ByteCount(bytes: pinnedBytes)) from being used again"
  }

  var fields: [(String, CBORValue)] {
    [
      ("pid", CBORValue(Int(pid))), ("stopped", .boolean(isStopped)),
      ("commitsBehind", CBORValue(commitsBehind)),
      ("seconds", seconds.map { CBORValue($0) } ?? .null), ("pinnedBytes", CBORValue(pinnedBytes)),
    ]
  }

  /// The action that releases the pages.
  var advice: String {
    if isStopped { return "Resume process \(pid) (kill -CONT \(pid)) or terminate it." }
    return seconds == nil
      ? "None is needed: it is not a read, and process \(pid) releases it after the next checkpoint, or "
        + "when its check or copy ends."
      : "Wait until the read of process \(pid) ends, or terminate the process."
  }
}
#endif
