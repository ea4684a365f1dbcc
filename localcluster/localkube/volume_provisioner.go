package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	provisionerOfClaim  = "volume.kubernetes.io/storage-provisioner"
	provisionerOfVolume = "pv.kubernetes.io/provisioned-by"
)

// A volume is a directory of this machine. The claim's uid names it, so a repeated pass finds what the last one made.
type volumeProvisioner struct {
	name, directory, node string
	client                kubernetes.Interface
	events                record.EventRecorder
	informers             informers.SharedInformerFactory
	queue                 workqueue.TypedRateLimitingInterface[string]
}

func newVolumeProvisionerCommand() *cobra.Command {
	p := &volumeProvisioner{}
	var kubeconfig string
	command := &cobra.Command{
		Use:          "volume-provisioner",
		Short:        "Serve volume claims with directories of this machine",
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			config.UserAgent = "volume-provisioner"
			if p.client, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
			return p.run(command.Context())
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the cluster")
	command.Flags().StringVar(&p.name, "provisioner", "ray-operator.local/directory", "the storage class's provisioner")
	command.Flags().StringVar(&p.directory, "directory", "", "where volumes are made")
	command.Flags().StringVar(&p.node, "node", "", "the name of the node that is this machine")
	for _, flag := range []string{"kubeconfig", "directory", "node"} {
		_ = command.MarkFlagRequired(flag)
	}
	return command
}

func (p *volumeProvisioner) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1.EventSinkImpl{Interface: p.client.CoreV1().Events("")})
	p.events = broadcaster.NewRecorder(scheme.Scheme, core.EventSource{Component: "volume-provisioner"})
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	p.informers = informers.NewSharedInformerFactory(p.client, 0)
	enqueue := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			p.queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		p.informers.Core().V1().PersistentVolumeClaims().Informer(),
		p.informers.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	p.informers.Storage().V1().StorageClasses().Lister()
	p.informers.Start(ctx.Done())
	p.informers.WaitForCacheSync(ctx.Done())
	go func() { <-ctx.Done(); p.queue.ShutDown() }()
	for {
		key, stopped := p.queue.Get()
		if stopped {
			return nil
		}
		if err := p.settle(ctx, key); err != nil {
			klog.ErrorS(err, "will try again", "key", key)
			p.queue.AddRateLimited(key)
		} else {
			p.queue.Forget(key)
		}
		p.queue.Done(key)
	}
}

// Claims have a namespace and volumes have none, which is how one queue holds both.
func (p *volumeProvisioner) settle(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil
	}
	if namespace == "" {
		volume, err := p.informers.Core().V1().PersistentVolumes().Lister().Get(name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return p.reclaim(ctx, volume)
	}
	claim, err := p.informers.Core().V1().PersistentVolumeClaims().Lister().PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return p.provision(ctx, claim)
}

func (p *volumeProvisioner) provision(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Annotations[provisionerOfClaim] != p.name || claim.Spec.VolumeName != "" ||
		claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := p.informers.Storage().V1().StorageClasses().Lister().Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err
	}
	if refusal := refusalOf(claim); refusal != "" {
		p.events.Event(claim, core.EventTypeWarning, "ProvisioningFailed", refusal)
		return nil
	}
	volume := p.volumeFor(claim, class)
	path := volume.Spec.HostPath.Path
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	// Kubernetes does not give host paths to a pod's fsGroup, and pods run as any user.
	if err := os.Chmod(path, 0o777); err != nil {
		return err
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volume, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err == nil {
		p.events.Eventf(claim, core.EventTypeNormal, "ProvisioningSucceeded", "Made volume %s in %s", volume.Name, path)
	}
	return err
}

func refusalOf(claim *core.PersistentVolumeClaim) string {
	switch {
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == core.PersistentVolumeBlock:
		return "Block volumes are not served here: volumes are directories; use volumeMode Filesystem"
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return "Volumes are not filled from a data source here; drop dataSource and dataSourceRef"
	}
	return ""
}

func (p *volumeProvisioner) volumeFor(
	claim *core.PersistentVolumeClaim, class *storage.StorageClass,
) *core.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	existing := core.HostPathDirectory
	policy := core.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{provisionerOfVolume: p.name}},
		Spec: core.PersistentVolumeSpec{
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      core.ResourceList{core.ResourceStorage: claim.Spec.Resources.Requests[core.ResourceStorage]},
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			PersistentVolumeSource: core.PersistentVolumeSource{
				HostPath: &core.HostPathVolumeSource{Path: filepath.Join(p.directory, name), Type: &existing},
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{{
					Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{p.node},
				}}}},
			}},
		},
	}
}

func (p *volumeProvisioner) reclaim(ctx context.Context, volume *core.PersistentVolume) error {
	if volume.Annotations[provisionerOfVolume] != p.name || volume.Status.Phase != core.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete || volume.Spec.HostPath == nil {
		return nil
	}
	path := filepath.Clean(volume.Spec.HostPath.Path)
	if filepath.Dir(path) != filepath.Clean(p.directory) {
		return fmt.Errorf("volume %s is at %s, outside %s: left alone", volume.Name, path, p.directory)
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	err := p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{
		Preconditions: &meta.Preconditions{UID: &volume.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
