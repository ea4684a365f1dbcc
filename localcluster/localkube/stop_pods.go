package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	remote "k8s.io/cri-client/pkg"
)

// Asking the container runtime, rather than killing processes, also gives back each pod's address, network namespace,
// interface, mounts and cgroup. The kubelet must be down by then, or it makes the pods again.
func newStopPodsCommand() *cobra.Command {
	var endpoint string
	var limit time.Duration
	command := &cobra.Command{
		Use:          "stop-pods",
		Short:        "Stop and remove every pod sandbox of a container runtime",
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), limit)
			defer cancel()
			return stopPods(ctx, endpoint, limit)
		},
	}
	command.Flags().StringVar(&endpoint, "endpoint", "", "the runtime's socket, as unix:///path")
	command.Flags().DurationVar(&limit, "limit", time.Minute, "give up after this long")
	_ = command.MarkFlagRequired("endpoint")
	return command
}

func stopPods(ctx context.Context, endpoint string, limit time.Duration) error {
	service, err := remote.NewRemoteRuntimeService(ctx, endpoint, limit, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	sandboxes, err := service.ListPodSandbox(ctx, &runtime.PodSandboxFilter{})
	if err != nil {
		return err
	}
	failures := make([]error, len(sandboxes))
	var pods sync.WaitGroup
	for i, sandbox := range sandboxes {
		pods.Go(func() {
			err := service.StopPodSandbox(ctx, sandbox.Id)
			if err == nil {
				err = service.RemovePodSandbox(ctx, sandbox.Id)
			}
			if err != nil {
				failures[i] = fmt.Errorf("pod %s/%s: %w", sandbox.Metadata.Namespace, sandbox.Metadata.Name, err)
			}
		})
	}
	pods.Wait()
	fmt.Printf("%d pod sandboxes stopped\n", len(sandboxes))
	return errors.Join(failures...)
}
