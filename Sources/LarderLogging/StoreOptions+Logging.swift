// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Logging
public import LarderEngine
public import Logging

extension StoreOptions {
  /// Returns the options with a log of all errors and events of the store.
  ///
  /// ```swift
  /// let store = try SharedStore(at: path, StoreOptions().logging(to: Logger(label: "app.cache")))
  /// ```
  ///
  /// Earlier handlers (`onError`, `onEvent`) are called after the log; handlers that are set later
  /// replace it. Each process logs its errors and events: an event of all processes
  /// (`generationChanged`) is in the log of each.
  ///
  /// | level | what |
  /// |---|---|
  /// | critical | errors with the code `damaged` or `outcomeUnknown` |
  /// | error | all other errors that have no caller; the event `resetToEmpty` |
  /// | warning | errors with the code `unreadableEntry` or `valueTooLarge`; the events `damagedEntry`, `restored`, `readerStalled` |
  /// | notice | the event `pidNamespaceConflict` |
  /// | info | the event `moved` |
  /// | debug | the event `indexBuilding` |
  ///
  /// Metadata of errors: `larder.code`, `larder.operation`, `larder.path`, `larder.pid` (the process
  /// in the way) and `larder.errno`, as far as the error has them; the error itself is attached. Of
  /// events: `larder.event` (the name of the case), and by event `larder.detail`,
  /// `larder.generation`, `larder.path`, `larder.pid`, `larder.transactions_behind`,
  /// `larder.type`, `larder.index`, `larder.done`, `larder.total`. A path's metadata is the place the message is about; name the store in the logger's own metadata if
  /// a process has several.
  ///
  /// Nothing is done on reads and writes that succeed. The log is written on a thread of the store
  /// or of the caller: a log handler that waits holds that thread up.
  ///
  /// - Parameter logger: Where to. Its level counts when the message is written.
  public func logging(to logger: Logger) -> StoreOptions {
    var options = self
    let (onError, onEvent) = (self.onError, self.onEvent)
    options.onError = { error in
      logger.log(error)
      onError?(error)
    }
    options.onEvent = { event in
      logger.log(event)
      onEvent?(event)
    }
    return options
  }
}

extension Logger {
  fileprivate func log(_ error: any Error) {
    guard let error = error as? StoreError else {
      // An error of objects, values or the program's code: its text contains the failure and a remedy.
      self.error("\(error)", error: error)
      return
    }
    var metadata: Metadata = [
      "larder.code": "\(error.code)", "larder.operation": "\(error.operation)",
    ]
    if let path = error.path { metadata["larder.path"] = "\(path)" }
    if let pid = error.pid { metadata["larder.pid"] = "\(pid)" }
    if let number = error.errorNumber { metadata["larder.errno"] = "\(number)" }
    let level: Level =
      switch error.code {
      case .damaged, .outcomeUnknown: .critical
      case .unreadableEntry, .valueTooLarge: .warning
      default: .error
      }
    log(level: level, "\(error.message)", error: error, metadata: metadata)
  }

  fileprivate func log(_ event: StoreEvent) {
    let (level, name, details): (Level, String, Metadata) =
      switch event {
      case .damagedEntry(let text): (.warning, "damagedEntry", ["larder.detail": "\(text)"])
      case .resetToEmpty(let reason): (.error, "startedEmpty", ["larder.detail": "\(reason)"])
      case .restored(let reason): (.warning, "restored", ["larder.detail": "\(reason)"])
      case .generationChanged(let generation):
        (.info, "moved", ["larder.generation": "\(generation)"])
      case .pidNamespaceConflict(let path):
        (.notice, "separateNamespace", ["larder.path": "\(path)"])
      case .readerStalled(let pid, let count):
        (
          .warning, "readerStalled",
          ["larder.pid": "\(pid)", "larder.transactions_behind": "\(count)"]
        )
      case .indexBuilding(let type, let index, let done, let total):
        (
          .debug, "indexBuilding",
          [
            "larder.type": "\(type)", "larder.index": "\(index)", "larder.done": "\(done)",
            "larder.total": "\(total)",
          ]
        )
      case .objectsErased(let type, let objects, let reason):
        (
          .warning, "objectsErased",
          ["larder.type": "\(type)", "larder.objects": "\(objects)", "larder.detail": "\(reason)"]
        )
      }
    log(
      level: level, "\(event)",
      metadata: details.merging(["larder.event": "\(name)"]) { detail, _ in detail })
  }
}
#endif
