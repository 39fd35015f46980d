package trigger

import "log/slog"

// logEvent logs the steps in the life of a range: at info what is normal, and as an
// error what an operator has to look at. Those of batches and
// changes are not logged here.
func logEvent(log *slog.Logger, e Event) {
	switch e.Kind {
	case EventDelivered, EventDeliveryFailed, EventDeadLettered, EventPostponed, EventFiltered, EventCheckpointed:
		return
	}
	log = log.With(slog.String("range", e.Range), slog.Int64("epoch", e.Epoch))
	switch e.Kind {
	case EventAcquired:
		log.Info("lease acquired", slog.String("continuation", e.Continuation))
	case EventCaughtUp:
		log.Info("range caught up", slog.String("continuation", e.Continuation))
	case EventSplit:
		log.Info("range split; its children continue", slog.Any("children", e.Children))
	case EventFlushed:
		if e.Err == nil {
			log.Info("handler's changes flushed", slog.Duration("took", e.Duration))
		} else {
			log.Error("Flush failed; the next owner delivers the unflushed changes again", slog.Duration("took", e.Duration), slog.Any("error", e.Err), stackField(e.Err))
		}
	case EventReleased:
		logRelease(log, e)
	case EventStalled:
		log.Error("range stalled", slog.String("cause", string(e.Stall.Kind)), slog.Time("since", e.Stall.Since),
			slog.String("why", e.Stall.Describe(e.Stall.Since.Add(e.Lasting))), slog.String("advice", e.Stall.Advice()))
	case EventRecovered:
		log.Info("range recovered", slog.String("cause", string(e.Stall.Kind)), slog.Time("since", e.Stall.Since), slog.Duration("lasted", e.Lasting))
	}
}

func logRelease(log *slog.Logger, e Event) {
	switch e.Reason {
	case ClosedHandedOver:
		log.Info("lease handed over", slog.String("continuation", e.Continuation))
	case ClosedLeaseLost:
		log.Info("lease lost to another host or an operator, or deleted", slog.Any("error", e.Err))
	case ClosedGone: // the split was logged
	case ClosedPaused:
		log.Info("lease released, the range is paused by an operator", slog.String("reason", e.Stall.Text), slog.String("continuation", e.Continuation))
	case ClosedStopped, ClosedCaughtUp, ClosedPhaseEnded:
		log.Info("lease released", slog.String("reason", string(e.Reason)), slog.String("continuation", e.Continuation))
	default:
		log.Error("lease released", slog.String("reason", string(e.Reason)), slog.Any("error", e.Err))
	}
}
